import type { BodyRest } from "./http-pool.ts";

/** Each of them holds a connection. */
const RESTS_MAX = 16;

interface Kept {
  readonly offsetBytes: number;
  readonly rest: BodyRest;
}

/** Answers that are half read, each for the reader who is expected to go on. */
export class BodyRests {
  /** By what ends the waiting, the oldest first. */
  readonly #kept = new Map<AbortSignal, Kept>();
  readonly #watched = new WeakSet<AbortSignal>();

  keep(until: AbortSignal, offsetBytes: number, rest: BodyRest): void {
    this.#drop(until);
    if (until.aborted) return rest.close();
    this.#kept.set(until, { offsetBytes, rest });
    if (!this.#watched.has(until)) {
      this.#watched.add(until);
      until.addEventListener("abort", () => this.#drop(until), { once: true });
    }
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > RESTS_MAX && oldest !== undefined) this.#drop(oldest);
  }

  /** Undefined: it was not kept, begins elsewhere, or the connection is gone. */
  take(until: AbortSignal, offsetBytes: number): BodyRest | undefined {
    const kept = this.#kept.get(until);
    if (kept?.offsetBytes !== offsetBytes || !kept.rest.isThere()) return undefined;
    this.#kept.delete(until);
    return kept.rest;
  }

  close(): void {
    for (const until of this.#kept.keys()) this.#drop(until);
  }

  #drop(until: AbortSignal): void {
    this.#kept.get(until)?.rest.close();
    this.#kept.delete(until);
  }
}
