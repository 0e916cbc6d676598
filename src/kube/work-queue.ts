import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "./back-off.ts";

/** What is left to do for a key can wait until there is less to do. */
export const LATER = "later";

export interface WorkQueueOptions {
  readonly concurrency: number;
  readonly backOff: { readonly firstMs: number; readonly maxMs: number };
  /**
   * Returns after how many ms to look at the key again, if at all without a reason; or LATER, to be
   * called once more in a calm moment, when nothing else is under work; or when the next step of
   * the same work is due, during which the key keeps its back-off.
   */
  readonly work: (key: string, signal: AbortSignal, calm: boolean) => Promise<Outcome | NextStep>;
  readonly log: Log;
}

export interface NextStep {
  readonly stepAfterMs: number;
}

export type Outcome = number | typeof LATER | undefined;

/** After this, who waits for a calm moment has his turn among the others. */
const PATIENCE_MS = 10_000;
const UNEXPECTED = "unexpected error while reconciling";

/** Keys, each worked on by one at a time, several at once; a key that fails backs off alone. */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #waiting = new Set<string>();
  /** Those that can wait, and until when. The first has waited longest. */
  readonly #patient = new Map<string, number>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #again = new Set<string>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #backOffs = new Map<string, BackOff>();
  #isCalmRunning = false;
  #signal: AbortSignal | undefined;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  /** A key that waits already is not queued twice; one under work is worked on once more. */
  add(key: string): void {
    if (this.#signal?.aborted === true) return;
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
    this.#patient.delete(key);
    if (this.#running.has(key)) this.#again.add(key);
    else this.#waiting.add(key);
    this.#pump();
  }

  /** Works until the signal aborts, then lets what is under way end. */
  async start(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
    this.#pump();
    await promise;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#waiting.clear();
    this.#patient.clear();
    await Promise.all(this.#running.values());
  }

  #pump(): void {
    if (this.#signal === undefined || this.#signal.aborted) return;
    this.#pumpPatient(this.#signal);
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return;
      this.#begin(key, this.#signal, false);
    }
  }

  /** One at a time: also when their patience ends, the others are more urgent. */
  #pumpPatient(signal: AbortSignal): void {
    const [first] = this.#patient;
    if (first === undefined || this.#isCalmRunning) return;
    const [key, untilMs] = first;
    const isCalm = this.#running.size === 0 && this.#waiting.size === 0;
    const isFree = this.#running.size < this.#options.concurrency;
    if (isCalm || (isFree && untilMs <= performance.now())) this.#begin(key, signal, true);
  }

  #begin(key: string, signal: AbortSignal, calm: boolean): void {
    this.#waiting.delete(key);
    this.#patient.delete(key);
    if (calm) this.#isCalmRunning = true;
    this.#running.set(key, this.#run(key, signal, calm));
  }

  async #run(key: string, signal: AbortSignal, calm: boolean): Promise<void> {
    let outcome: Outcome | NextStep;
    try {
      outcome = await this.#options.work(key, signal, calm);
      if (typeof outcome !== "object") this.#backOffs.delete(key);
    } catch (error) {
      outcome = this.#afterFault(key, error, signal);
    }
    this.#running.delete(key);
    if (calm) this.#isCalmRunning = false;
    if (this.#again.delete(key)) this.add(key);
    else if (outcome === LATER) this.#patient.set(key, performance.now() + PATIENCE_MS);
    else if (typeof outcome === "object") this.#addAfter(key, outcome.stepAfterMs);
    else if (outcome !== undefined) this.#addAfter(key, outcome);
    this.#pump();
  }

  #afterFault(key: string, error: unknown, signal: AbortSignal): number | undefined {
    if (signal.aborted) return undefined;
    const { firstMs, maxMs } = this.#options.backOff;
    const backOff = this.#backOffs.get(key) ?? new BackOff(firstMs, maxMs);
    this.#backOffs.set(key, backOff);
    const facts = { key, attempt: backOff.failures };
    if (!(error instanceof Failure)) this.#options.log.error({ ...facts, err: error }, UNEXPECTED);
    else if (error.kind === "stale") this.#options.log.debug(facts, "changed meanwhile: again");
    else this.#options.log.warn({ ...facts, kind: error.kind, err: error.message }, "failed");
    return backOff.nextMs();
  }

  #addAfter(key: string, ms: number): void {
    if (this.#signal?.aborted === true) return;
    clearTimeout(this.#timers.get(key));
    this.#timers.set(
      key,
      setTimeout(() => this.add(key), ms),
    );
  }
}
