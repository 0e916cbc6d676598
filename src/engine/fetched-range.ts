import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { ObjectReader } from "../s3/object-store.ts";
import type { BufferPool } from "./buffer-pool.ts";

export interface FetchSource {
  readonly store: ObjectReader;
  readonly pool: BufferPool;
  readonly key: string;
  readonly etag: string;
}

/**
 * A range of an object while it arrives: readable from its start as far as it is filled.
 * INVARIANT: its memory goes back to the pool when nobody holds it and no bytes arrive any more.
 */
export class FetchedRange {
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly #pool: BufferPool;
  readonly #buffer: Buffer;
  readonly #abort = new AbortController();
  readonly #waiting = new Set<() => void>();
  #filledBytes = 0;
  #failure: unknown;
  #holders = 2; // the window that wants it, and the fetch itself

  constructor(source: FetchSource, offsetBytes: number, sizeBytes: number) {
    this.offsetBytes = offsetBytes;
    this.sizeBytes = sizeBytes;
    this.#pool = source.pool;
    this.#buffer = source.pool.take(sizeBytes);
    void this.#fetch(source);
  }

  get endBytes(): number {
    return this.offsetBytes + this.sizeBytes;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /** Lends the bytes up to `endBytes`, once they are here: give them back with release(). */
  async borrow(fromBytes: number, toBytes: number): Promise<Buffer> {
    const needed = toBytes - this.offsetBytes;
    this.#holders += 1;
    while (this.#filledBytes < needed && this.#failure === undefined) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      await promise;
    }
    if (this.#filledBytes >= needed) {
      return this.#buffer.subarray(fromBytes - this.offsetBytes, needed);
    }
    this.release();
    throw this.#failure;
  }

  release(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.#pool.give(this.#buffer);
  }

  /** The window has moved on: what has not arrived is not wanted any more. */
  discard(): void {
    const arriving = this.#filledBytes < this.sizeBytes && this.#failure === undefined;
    if (arriving && this.#holders === 2) this.#abort.abort(new Failure("timeout", "not wanted"));
    this.release();
  }

  async #fetch({ store, key, etag }: FetchSource): Promise<void> {
    const onFilled = (filledBytes: number) => {
      this.#filledBytes = filledBytes;
      this.#wake();
    };
    try {
      const { offsetBytes } = this;
      const range = { key, etag, offsetBytes, into: this.#buffer, onFilled };
      await store.read(range, this.#abort.signal);
    } catch (error) {
      const gone = error instanceof Failure && error.kind === "absent";
      this.#failure = gone ? new Failure("stale", `${key} was deleted`, error) : error;
    }
    this.#wake();
    this.release();
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
