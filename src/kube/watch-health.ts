/** The page of one watch: it writes down what happens to it. */
export interface WatchPage extends Disposable {
  /** Any sign of life of the loop, even a fault: one that gives none for long hangs. */
  sign(): void;
  listed(): void;
  /** The server answers: what was at fault is over. */
  followed(): void;
  faulted(reason: string): void;
}

interface WatchState {
  readonly watch: string;
  synced: boolean;
  fault: string | undefined;
  signMs: number;
}

/** Silence, back-off and a slow list together stay well below it. */
const HANGS_AFTER_MS = 300_000;

/** What is known of the watches of one client, for the health of the process that trusts them. */
export class WatchHealth {
  readonly #states = new Set<WatchState>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** From the start of a watch until its page is disposed of. */
  open(watch: string): WatchPage {
    const state: WatchState = { watch, synced: false, fault: undefined, signMs: this.#nowMs() };
    this.#states.add(state);
    const sign = () => {
      state.signMs = this.#nowMs();
    };
    return {
      sign,
      listed() {
        sign();
        state.synced = true;
        state.fault = undefined;
      },
      followed() {
        sign();
        state.fault = undefined;
      },
      faulted(reason) {
        sign();
        state.fault = reason;
      },
      [Symbol.dispose]: () => void this.#states.delete(state),
    };
  }

  /** Watches whose loop has stopped, API server or not: only a new process helps. */
  hanging(): string[] {
    const nowMs = this.#nowMs();
    return this.#problems(({ signMs }) => {
      const silentMs = Math.round(nowMs - signMs);
      return silentMs > HANGS_AFTER_MS ? `no sign of life for ${silentMs} ms` : undefined;
    });
  }

  unsynced(): string[] {
    return this.#problems(({ synced, fault }) =>
      synced ? undefined : `not listed yet${fault === undefined ? "" : `: ${fault}`}`,
    );
  }

  /** Watches that have their list and that the API server does not answer now. */
  faults(): string[] {
    return this.#problems(({ synced, fault }) => (synced ? fault : undefined));
  }

  #problems(problemOf: (state: WatchState) => string | undefined): string[] {
    return Array.from(this.#states, (state) => {
      const problem = problemOf(state);
      return problem === undefined ? [] : [`watch of ${state.watch}: ${problem}`];
    }).flat();
  }
}
