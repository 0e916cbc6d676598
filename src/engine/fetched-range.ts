import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { ObjectReader, ReadOn } from "../s3/object-store.ts";
import type { BufferPool } from "./buffer-pool.ts";
import type { Lane } from "./lane.ts";

export interface FetchSource {
  readonly store: ObjectReader;
  readonly pool: BufferPool;
  readonly key: string;
  readonly etag: string;
  readonly objectBytes: number;
}

interface Waiting {
  readonly neededBytes: number;
  readonly resolve: () => void;
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
  #waiting: Waiting[] = [];
  #filledBytes = 0;
  #failure: unknown;
  #holders = 2; // the window that wants it, and the fetch itself

  constructor(source: FetchSource, offsetBytes: number, sizeBytes: number, lane?: Lane) {
    this.offsetBytes = offsetBytes;
    this.sizeBytes = sizeBytes;
    this.#pool = source.pool;
    this.#buffer = source.pool.take(sizeBytes);
    if (lane === undefined) void this.#fetch(source, undefined);
    else lane.add(() => this.#fetch(source, lane));
  }

  get endBytes(): number {
    return this.offsetBytes + this.sizeBytes;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  get isFilled(): boolean {
    return this.#filledBytes === this.sizeBytes;
  }

  /** Its memory stays as it is until release(). */
  hold(): void {
    this.#holders += 1;
  }

  /** The bytes, once they are here. Only for who holds it. */
  async bytes(fromBytes: number, toBytes: number): Promise<Buffer> {
    const neededBytes = toBytes - this.offsetBytes;
    if (this.#filledBytes < neededBytes && this.#failure === undefined) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push({ neededBytes, resolve });
      await promise;
    }
    if (this.#filledBytes < neededBytes) throw this.#failure;
    return this.#buffer.subarray(fromBytes - this.offsetBytes, neededBytes);
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

  async #fetch(source: FetchSource, goesOn: ReadOn | undefined): Promise<void> {
    const { store, key, etag, objectBytes } = source;
    const onFilled = (filledBytes: number) => {
      this.#filledBytes = filledBytes;
      this.#wake();
    };
    try {
      const { offsetBytes } = this;
      const { signal } = this.#abort;
      signal.throwIfAborted(); // while others of its lane were fetched
      const into = this.#buffer;
      const range = { key, etag, objectBytes, offsetBytes, into, onFilled, goesOn };
      await store.read(range, signal);
    } catch (error) {
      const gone = error instanceof Failure && error.kind === "absent";
      this.#failure = gone ? new Failure("stale", `${key} was deleted`, error) : error;
    }
    this.#wake();
    this.release();
  }

  /** Most arrivals are a fraction of what a reader waits for. */
  #wake(): void {
    if (this.#waiting.length === 0) return;
    this.#waiting = this.#waiting.filter(({ neededBytes, resolve }) => {
      const waitsOn = neededBytes > this.#filledBytes && !this.failed;
      if (!waitsOn) resolve();
      return waitsOn;
    });
  }
}
