import type { Buffer } from "node:buffer";
import type { ObjectStore, UploadedPart } from "../s3/object-store.ts";
import type { BufferPool } from "./buffer-pool.ts";
import { PosixFailure } from "./posix-failure.ts";

const PARTS_MAX = 10_000;
const PARTS_IN_FLIGHT_MAX = 8;
const FIRST_BUFFER_BYTES = 128 * 1024;

export interface UploadDeps {
  readonly store: ObjectStore;
  readonly pool: BufferPool;
  readonly partSizeBytes: number;
}

/**
 * One object on its way to S3: bytes come in order, leave in parts, and become visible all at
 * once at the end. A file that fits into one part is one PUT.
 */
export class Upload {
  readonly #deps: UploadDeps;
  readonly #key: string;
  readonly #abort = new AbortController();
  readonly #parts: Promise<UploadedPart>[] = [];
  readonly #inFlight = new Set<Promise<unknown>>();
  #buffer: Buffer | undefined;
  #bufferedBytes = 0;
  #sizeBytes = 0;
  #uploadId: Promise<string> | undefined;
  #tail: Promise<unknown> | undefined;
  #failure: unknown;
  #completion: Promise<{ etag: string }> | undefined;

  constructor(deps: UploadDeps, key: string) {
    this.#deps = deps;
    this.#key = key;
  }

  /** Acknowledged bytes. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get completing(): boolean {
    return this.#completion !== undefined;
  }

  /** Settles at once when the bytes fit into the current part, else when there is room. */
  write(offsetBytes: number, data: Uint8Array): number | Promise<number> {
    if (this.#tail !== undefined) return this.#queue(offsetBytes, data);
    this.#check(offsetBytes, data.length);
    if (this.#bufferedBytes + data.length < this.#deps.partSizeBytes && this.#fits(data.length)) {
      this.#append(data);
      return data.length;
    }
    return this.#queue(offsetBytes, data);
  }

  /** Completed by one PUT, with all bytes still here: more may follow, and it is PUT again. */
  get continuable(): boolean {
    return this.completing && this.#parts.length === 0 && this.#failure === undefined;
  }

  continue(): void {
    this.#completion = undefined;
  }

  /** No more writes will come. */
  close(): void {
    this.#dropBuffer();
  }

  /** Makes the object exist with what was written; the same answer however often it is asked. */
  complete(): Promise<{ etag: string }> {
    this.#completion ??= this.#complete();
    return this.#completion;
  }

  /** Nothing of it shall be seen. Parts that were sent are removed. */
  async abort(why: unknown): Promise<void> {
    this.#failure ??= why;
    this.#abort.abort(why);
    this.#dropBuffer();
    await Promise.allSettled(this.#inFlight);
    if (this.#uploadId === undefined) return;
    try {
      const uploadId = await this.#uploadId;
      await this.#deps.store.abortUpload(this.#key, uploadId, AbortSignal.timeout(30_000));
    } catch {
      // Nobody waits for this any more; the bucket's lifecycle rule is the last resort.
    }
  }

  #queue(offsetBytes: number, data: Uint8Array): Promise<number> {
    const before = this.#tail ?? Promise.resolve();
    const written = before.then(() => this.#writeSlowly(offsetBytes, data));
    const settled: Promise<void> = written.then(
      () => this.#dequeue(settled),
      () => this.#dequeue(settled),
    );
    this.#tail = settled;
    return written;
  }

  #dequeue(settled: Promise<void>): void {
    if (this.#tail === settled) this.#tail = undefined;
  }

  async #writeSlowly(offsetBytes: number, data: Uint8Array): Promise<number> {
    this.#check(offsetBytes, data.length);
    let rest = data;
    while (rest.length > 0) {
      const space = this.#deps.partSizeBytes - this.#bufferedBytes;
      const piece = rest.subarray(0, space);
      if (!this.#fits(piece.length)) await this.#makeRoom(piece.length);
      this.#append(piece);
      rest = rest.subarray(piece.length);
      if (this.#bufferedBytes === this.#deps.partSizeBytes) await this.#startPart();
    }
    return data.length;
  }

  /** Out of order is the caller's error, and ends the upload: a hole can't be filled later. */
  #check(offsetBytes: number, sizeBytes: number): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#completion !== undefined) {
      throw new PosixFailure("EIO", `${this.#key}: written after its upload was completed`);
    }
    if (offsetBytes !== this.#sizeBytes) {
      const message = `${this.#key}: write at ${offsetBytes}, expected at ${this.#sizeBytes}`;
      const failure = new PosixFailure("EINVAL", message);
      void this.abort(failure);
      throw failure;
    }
    if (this.#sizeBytes + sizeBytes > PARTS_MAX * this.#deps.partSizeBytes) {
      throw new PosixFailure("EFBIG", `${this.#key}: larger than ${PARTS_MAX} parts`);
    }
  }

  #fits(sizeBytes: number): boolean {
    return this.#buffer !== undefined && this.#bufferedBytes + sizeBytes <= this.#buffer.length;
  }

  #append(data: Uint8Array): void {
    this.#buffer?.set(data, this.#bufferedBytes);
    this.#bufferedBytes += data.length;
    this.#sizeBytes += data.length;
  }

  /** The first part's buffer grows with the file: most files are small. */
  async #makeRoom(sizeBytes: number): Promise<void> {
    const { pool, partSizeBytes } = this.#deps;
    const needed = this.#bufferedBytes + sizeBytes;
    const former = this.#buffer;
    let capacity = this.#parts.length > 0 ? partSizeBytes : FIRST_BUFFER_BYTES;
    while (capacity < needed) capacity *= 4;
    capacity = Math.min(capacity, partSizeBytes);
    // Only for parts of our own: waiting for other writers could be waiting for ever.
    while (!pool.hasRoomFor(capacity) && this.#inFlight.size > 0) {
      await Promise.race(this.#inFlight);
    }
    if (this.#failure !== undefined) throw this.#failure;
    const buffer = pool.take(capacity);
    if (former !== undefined) {
      former.copy(buffer, 0, 0, this.#bufferedBytes);
      pool.give(former);
    }
    this.#buffer = buffer;
  }

  async #startPart(): Promise<void> {
    const buffer = this.#buffer;
    if (buffer === undefined) return;
    while (this.#inFlight.size >= PARTS_IN_FLIGHT_MAX) await Promise.race(this.#inFlight);
    if (this.#failure !== undefined) throw this.#failure;
    const body = buffer.subarray(0, this.#bufferedBytes);
    this.#buffer = undefined;
    this.#bufferedBytes = 0;
    const part = this.#sendPart(this.#parts.length + 1, body).finally(() => {
      this.#deps.pool.give(buffer);
      this.#inFlight.delete(watched);
    });
    const watched = part.catch((error: unknown) => {
      this.#failure ??= error;
    });
    this.#inFlight.add(watched);
    this.#parts.push(part);
  }

  async #sendPart(partNumber: number, body: Uint8Array): Promise<UploadedPart> {
    const { store } = this.#deps;
    const { signal } = this.#abort;
    this.#uploadId ??= store.createUpload(this.#key, signal);
    return store.uploadPart(this.#key, await this.#uploadId, partNumber, body, signal);
  }

  async #complete(): Promise<{ etag: string }> {
    try {
      await this.#tail;
      if (this.#failure !== undefined) throw this.#failure;
      return await (this.#parts.length === 0 ? this.#putWhole() : this.#completeParts());
    } catch (error) {
      await this.abort(error);
      throw error;
    }
  }

  async #putWhole(): Promise<{ etag: string }> {
    const body = this.#buffer?.subarray(0, this.#bufferedBytes) ?? new Uint8Array();
    return this.#deps.store.put(this.#key, body, this.#abort.signal);
  }

  async #completeParts(): Promise<{ etag: string }> {
    if (this.#bufferedBytes > 0) await this.#startPart();
    const parts = await Promise.all(this.#parts);
    const uploadId = (await this.#uploadId) ?? "";
    return this.#deps.store.completeUpload(this.#key, uploadId, parts, this.#abort.signal);
  }

  #dropBuffer(): void {
    if (this.#buffer !== undefined) this.#deps.pool.give(this.#buffer);
    this.#buffer = undefined;
    this.#bufferedBytes = 0;
  }
}
