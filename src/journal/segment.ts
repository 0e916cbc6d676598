import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { SharedMemory } from "../base/shared-memory.ts";

const PAGE_BYTES = 4096;
/** Precedes a segment's data: fill level and last writers, which survive with the data. */
const HEADER_BYTES = 64;
/** Requests that a segment remembers: as many as fit into the header behind the fill level. */
const WRITERS_MAX = 7;
/** The largest fill level of a single word. */
const WORD_MAX = 0xffff_ffff;

/**
 * A place for a part's bytes. INVARIANT at every instruction: a request is entered before its
 * bytes, the bytes are there before `filledBytes` counts them.
 */
export class Segment {
  readonly at: number;
  /** Address space: how large it can become. */
  readonly sizeBytes: number;
  /** Memory that is granted for its data; the spool counts these. */
  chargedBytes: number;
  readonly #memory: Buffer;
  /**
   * The fill level. Both words are one store, which a kill can't split. Releases that entered no
   * writers knew the first word alone: theirs is followed by bytes of a file that was there before.
   */
  readonly #level: BigUint64Array;
  readonly #words: Uint32Array;
  /** Pairs of words: the `unique` of the requests whose bytes were appended last. */
  readonly #writers: Uint32Array;
  #nextWriter = 0;

  constructor(memory: SharedMemory, at: number, sizeBytes: number, chargedBytes = sizeBytes) {
    this.at = at;
    this.sizeBytes = sizeBytes;
    this.chargedBytes = chargedBytes;
    this.#memory = memory.subarray(at, at + extentOf(sizeBytes));
    if (this.#memory.length !== extentOf(sizeBytes)) {
      throw new Failure("invalid", `a segment of ${sizeBytes} bytes at ${at} is not in the spool`);
    }
    const { buffer, byteOffset } = this.#memory;
    this.#level = new BigUint64Array(buffer, byteOffset, 1);
    this.#words = new Uint32Array(buffer, byteOffset, 2);
    this.#writers = new Uint32Array(buffer, byteOffset + 8, 2 * WRITERS_MAX);
  }

  get filledBytes(): number {
    return (this.#isLarge ? Number(this.#level[0]) : this.#words[0]) ?? 0;
  }

  /** False: the header is not one that an engine wrote. */
  get isSound(): boolean {
    return this.filledBytes <= this.sizeBytes;
  }

  /** False: an older release has filled it, at least in part, and entered no writers. */
  get knowsWriters(): boolean {
    const [level = 0, check = 0] = this.#words;
    return this.#isLarge || level === 0 || check === checkOf(level);
  }

  get bytes(): Buffer {
    return this.#memory.subarray(HEADER_BYTES, HEADER_BYTES + this.filledBytes);
  }

  /** The requests whose bytes were appended last, in no particular order. */
  get writers(): string[] {
    if (!this.knowsWriters) return [];
    const writers: string[] = [];
    for (let at = 0; at < this.#writers.length; at += 2) {
      const [high = 0, low = 0] = this.#writers.subarray(at, at + 2);
      if (high !== 0 || low !== 0) writers.push(`${high.toString(16)}.${low.toString(16)}`);
    }
    return writers;
  }

  clear(): void {
    this.#setFilled(0, true);
    this.#writers.fill(0);
  }

  append(data: Uint8Array): void {
    const { filledBytes, knowsWriters } = this;
    this.#memory.set(data, HEADER_BYTES + filledBytes);
    this.#setFilled(filledBytes + data.length, knowsWriters);
  }

  /** Takes bytes and writers of another one. Call it while this one is empty. */
  copy(other: Segment): void {
    for (const writer of other.writers) this.enterWriter(writer);
    this.append(other.bytes);
    if (!other.knowsWriters) this.#setFilled(this.filledBytes, false);
  }

  /** Enters a request before its bytes are appended, so that a successor recognises it. */
  enterWriter(unique: string): void {
    const dot = unique.indexOf(".");
    const at = 2 * this.#nextWriter;
    this.#writers[at] = Number.parseInt(unique.slice(0, dot), 16);
    this.#writers[at + 1] = Number.parseInt(unique.slice(dot + 1), 16);
    this.#nextWriter = (this.#nextWriter + 1) % WRITERS_MAX;
  }

  #setFilled(sizeBytes: number, knowsWriters: boolean): void {
    const check = this.#isLarge || !knowsWriters ? 0 : checkOf(sizeBytes);
    this.#level[0] = (BigInt(check) << 32n) | BigInt(sizeBytes);
  }

  /** A fill level may need both words: older releases can't read it anyway. */
  get #isLarge(): boolean {
    return this.sizeBytes > WORD_MAX;
  }
}

/** The second word, if this release has stored the first one. */
function checkOf(level: number): number {
  return ~level >>> 0;
}

/** Memory that a segment of that size occupies: its header and its data, in whole pages. */
export function extentOf(sizeBytes: number): number {
  return Math.ceil((sizeBytes + HEADER_BYTES) / PAGE_BYTES) * PAGE_BYTES;
}

/** The largest charge that takes as many pages as this one does. */
export function wholeCharge(sizeBytes: number): number {
  return extentOf(sizeBytes) - HEADER_BYTES;
}
