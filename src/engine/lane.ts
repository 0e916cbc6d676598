import { Turns } from "./turns.ts";

/**
 * Ranges one behind the other that come by one GET: each takes up the answer where the one before
 * has left it.
 */
export class Lane {
  readonly endBytes: number;
  readonly #over = new AbortController();
  readonly #turns = new Turns();

  constructor(endBytes: number) {
    this.endBytes = endBytes;
  }

  /** The rest of the answer is waited for until then. */
  get until(): AbortSignal {
    return this.#over.signal;
  }

  /** A fetch begins when the one before it has ended; it takes its failure for itself. */
  add(fetch: () => Promise<void>): void {
    void this.#turns.take(fetch);
  }

  /** Nobody goes on here. */
  close(): void {
    this.#over.abort();
  }
}
