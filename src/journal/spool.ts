import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { SharedMemory } from "../base/shared-memory.ts";

const PAGE_BYTES = 4096;
/** Before a segment's data: how much of it is filled, in memory that survives with the data. */
const SEGMENT_HEADER_BYTES = 64;

/** A place for a part's bytes. `filledBytes` is true at any instruction: data first, then this. */
export class Segment {
  readonly at: number;
  readonly sizeBytes: number;
  readonly #memory: Buffer;
  /** A word of its own: a kill can't split the store, as it can those of writeUInt32LE(). */
  readonly #filled: Uint32Array;

  constructor(memory: SharedMemory, at: number, sizeBytes: number) {
    this.at = at;
    this.sizeBytes = sizeBytes;
    this.#memory = memory.subarray(at, at + extentOf(sizeBytes));
    this.#filled = new Uint32Array(this.#memory.buffer, this.#memory.byteOffset, 1);
  }

  get filledBytes(): number {
    return this.#filled[0] ?? 0;
  }

  get bytes(): Buffer {
    return this.#memory.subarray(SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + this.filledBytes);
  }

  hasRoomFor(sizeBytes: number): boolean {
    return this.filledBytes + sizeBytes <= this.sizeBytes;
  }

  clear(): void {
    this.#filled[0] = 0;
  }

  append(data: Uint8Array): void {
    const filledBytes = this.filledBytes;
    this.#memory.set(data, SEGMENT_HEADER_BYTES + filledBytes);
    this.#filled[0] = filledBytes + data.length;
  }
}

export interface SpoolOptions {
  /** What writers may hold before they wait for each other. */
  readonly limitBytes: number;
  /** No segment goes beyond a multiple of it. */
  readonly chunkBytes?: number;
  /** Bytes that hold nothing until further notice. */
  readonly onIdle?: (offset: number, sizeBytes: number) => void;
}

/** What stays in memory when nobody writes: enough for small files. */
const KEPT_BYTES = 4 << 20;

/**
 * Acknowledged bytes on their way to S3, in shared memory. Which parts of it are in use is said by
 * the journal alone. The lowest free place is taken, so that the same pages are used again.
 */
export class Spool {
  readonly #memory: SharedMemory;
  readonly #options: SpoolOptions;
  /** In the order of their places. */
  readonly #used: Segment[] = [];
  #usedBytes = 0;
  #touchedBytes = 0;

  constructor(memory: SharedMemory, options: SpoolOptions) {
    this.#memory = memory;
    this.#options = options;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  hasRoomFor(sizeBytes: number): boolean {
    return this.#usedBytes + sizeBytes <= this.#options.limitBytes;
  }

  /** Ask hasRoomFor() first, for what can wait. What must be may go over the limit. */
  take(sizeBytes: number): Segment {
    let at = 0;
    let index = 0;
    for (; index < this.#used.length; index++) {
      const next = this.#used[index];
      if (next === undefined || next.at - at >= extentOf(sizeBytes)) break;
      at = this.#withinChunk(next.at + extentOf(next.sizeBytes), sizeBytes);
    }
    if (at + extentOf(sizeBytes) > this.#memory.length) {
      throw new Failure("busy", "no memory for more data that is not in S3 yet");
    }
    const segment = this.#insert(index, at, sizeBytes);
    segment.clear();
    return segment;
  }

  /** A segment that an earlier engine has filled: to be claimed before anything is taken. */
  claim(at: number, sizeBytes: number): Segment {
    const behind = this.#used.findIndex((segment) => segment.at > at);
    const index = behind === -1 ? this.#used.length : behind;
    const before = this.#used[index - 1];
    const end = this.#used[index]?.at ?? this.#memory.length;
    const fits = at >= 0 && at % PAGE_BYTES === 0 && at + extentOf(sizeBytes) <= end;
    if (!fits || (before !== undefined && before.at + extentOf(before.sizeBytes) > at)) {
      throw new Failure("invalid", `the journal is damaged: a segment at ${at} of the spool`);
    }
    const segment = this.#insert(index, at, sizeBytes);
    if (segment.filledBytes > sizeBytes) throw new Failure("invalid", "the spool is damaged");
    return segment;
  }

  give(segment: Segment): void {
    const index = this.#used.indexOf(segment);
    if (index === -1) return;
    this.#used.splice(index, 1);
    this.#usedBytes -= segment.sizeBytes;
    if (this.#used.length > 0 || this.#touchedBytes <= KEPT_BYTES) return;
    this.#options.onIdle?.(KEPT_BYTES, this.#touchedBytes - KEPT_BYTES);
    this.#touchedBytes = 0;
  }

  #withinChunk(at: number, sizeBytes: number): number {
    const { chunkBytes } = this.#options;
    if (chunkBytes === undefined) return at;
    const inChunk = at % chunkBytes;
    return inChunk + extentOf(sizeBytes) <= chunkBytes ? at : at + chunkBytes - inChunk;
  }

  #insert(index: number, at: number, sizeBytes: number): Segment {
    const segment = new Segment(this.#memory, at, sizeBytes);
    this.#used.splice(index, 0, segment);
    this.#usedBytes += sizeBytes;
    this.#touchedBytes = Math.max(this.#touchedBytes, at + extentOf(sizeBytes));
    return segment;
  }
}

/** What a segment of that size takes. */
export function extentOf(sizeBytes: number): number {
  return Math.ceil((sizeBytes + SEGMENT_HEADER_BYTES) / PAGE_BYTES) * PAGE_BYTES;
}
