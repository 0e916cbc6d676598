import { Failure } from "../base/failure.ts";
import type { SharedMemory } from "../base/shared-memory.ts";
import { extentOf, Segment, wholeCharge } from "./segment.ts";

const PAGE_BYTES = 4096;
/** Free memory that is kept for the next files while nobody writes. */
const IDLE_KEPT_BYTES = 4 << 20;
/** Free memory that is kept while others write: about four parts of the default size. */
const KEPT_BYTES = 32 << 20;

export interface SpoolOptions {
  /** Writers wait for parts in flight beyond this. */
  readonly limitBytes: number;
  /** The spool never grows beyond this; the length of its memory if absent. */
  readonly hardBytes?: number;
  /** Free memory that keeps its pages while others write. */
  readonly keptBytes?: number;
  /** No segment crosses a multiple of it. */
  readonly chunkBytes?: number;
  /** The range holds nothing: its pages can be returned to the system. */
  readonly onIdle?: (offset: number, sizeBytes: number) => void;
}

interface Extent {
  readonly at: number;
  readonly end: number;
}

/**
 * Acknowledged bytes on their way to S3, in shared memory. Only the journal says which parts of it
 * are in use. The lowest free place is taken, so that pages are reused.
 */
export class Spool {
  readonly limitBytes: number;
  readonly hardBytes: number;
  readonly #memory: SharedMemory;
  readonly #options: SpoolOptions;
  readonly #keptBytes: number;
  /** In the order of their places. */
  readonly #used: Segment[] = [];
  /**
   * Ranges without data that still have pages, the least recently freed first: between segments,
   * or in a segment behind what is granted of it.
   */
  #warm: Extent[] = [];
  #warmBytes = 0;
  #usedBytes = 0;

  constructor(memory: SharedMemory, options: SpoolOptions) {
    this.#memory = memory;
    this.#options = options;
    this.#keptBytes = options.keptBytes ?? KEPT_BYTES;
    this.limitBytes = options.limitBytes;
    this.hardBytes = Math.min(options.hardBytes ?? memory.length, memory.length);
  }

  /** Memory that is granted to segments, filled or not. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Whether there is a place for it, however much memory is in use. */
  hasPlaceFor(sizeBytes: number): boolean {
    return this.#placeFor(sizeBytes).at + extentOf(sizeBytes) <= this.#memory.length;
  }

  /** A place of that size, of which `chargedBytes` may be used until more is granted. */
  take(sizeBytes: number, chargedBytes = sizeBytes): Segment {
    const { at, index } = this.#placeFor(sizeBytes);
    if (at + extentOf(sizeBytes) > this.#memory.length) {
      throw new Failure("busy", "no memory for more data that is not in S3 yet");
    }
    const segment = new Segment(this.#memory, at, sizeBytes, chargedBytes);
    this.#insert(index, segment);
    segment.clear();
    return segment;
  }

  /** Grants more memory for a segment, or takes back what it has not filled. */
  charge(segment: Segment, chargedBytes: number): void {
    const before = segment.at + extentOf(segment.chargedBytes);
    const now = segment.at + extentOf(chargedBytes);
    this.#usedBytes += chargedBytes - segment.chargedBytes;
    segment.chargedBytes = chargedBytes;
    if (now > before) this.#useWarm({ at: before, end: now });
    else this.#addWarm({ at: now, end: before });
    this.#trim();
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
    const segment = new Segment(this.#memory, at, sizeBytes);
    if (!segment.isSound) throw new Failure("invalid", "the spool is damaged");
    segment.chargedBytes = Math.min(sizeBytes, wholeCharge(segment.filledBytes));
    this.#insert(index, segment);
    if (segment.filledBytes === 0) segment.clear(); // an older release has left other bytes in it
    return segment;
  }

  /**
   * To be called once all segments of an earlier engine are claimed: pages of all others stay
   * charged to the container until they are returned.
   */
  releaseUnclaimed(): void {
    let at = 0;
    for (const segment of this.#used) {
      this.#release({ at, end: segment.at });
      at = segment.at + extentOf(segment.chargedBytes);
    }
    this.#release({ at, end: this.#memory.length });
  }

  give(segment: Segment): void {
    const index = this.#used.indexOf(segment);
    if (index === -1) return;
    this.#used.splice(index, 1);
    this.#usedBytes -= segment.chargedBytes;
    this.#addWarm({ at: segment.at, end: segment.at + extentOf(segment.chargedBytes) });
    this.#trim();
  }

  #addWarm(extent: Extent): void {
    if (extent.end === extent.at) return;
    this.#warm.push(extent);
    this.#warmBytes += extent.end - extent.at;
  }

  /**
   * Returns the pages of free ranges that are too many, those furthest behind first. Together
   * with the segments in use they stay within the hard limit.
   */
  #trim(): void {
    const wantedBytes = this.#used.length === 0 ? IDLE_KEPT_BYTES : this.#keptBytes;
    const keptBytes = Math.max(0, Math.min(wantedBytes, this.hardBytes - this.#usedBytes));
    if (this.#warmBytes <= keptBytes) return;
    this.#warm.sort((left, right) => left.at - right.at);
    while (this.#warmBytes > keptBytes) {
      const last = this.#warm.pop();
      if (last === undefined) return;
      const excessBytes = Math.min(last.end - last.at, this.#warmBytes - keptBytes);
      const from = last.end - Math.ceil(excessBytes / PAGE_BYTES) * PAGE_BYTES;
      if (from > last.at) this.#warm.push({ at: last.at, end: from });
      this.#warmBytes -= last.end - from;
      this.#release({ at: from, end: last.end });
    }
  }

  #release({ at, end }: Extent): void {
    if (end > at) this.#options.onIdle?.(at, end - at);
  }

  #placeFor(sizeBytes: number): { readonly at: number; readonly index: number } {
    let at = 0;
    let index = 0;
    for (; index < this.#used.length; index++) {
      const next = this.#used[index];
      if (next === undefined || next.at - at >= extentOf(sizeBytes)) break;
      at = this.#withinChunk(next.at + extentOf(next.sizeBytes), sizeBytes);
    }
    return { at, index };
  }

  #withinChunk(at: number, sizeBytes: number): number {
    const { chunkBytes } = this.#options;
    if (chunkBytes === undefined) return at;
    const inChunk = at % chunkBytes;
    return inChunk + extentOf(sizeBytes) <= chunkBytes ? at : at + chunkBytes - inChunk;
  }

  #insert(index: number, segment: Segment): void {
    const { at, chargedBytes } = segment;
    this.#used.splice(index, 0, segment);
    this.#usedBytes += chargedBytes;
    this.#useWarm({ at, end: at + extentOf(chargedBytes) });
    this.#trim();
  }

  /** The range is in use: what of it was free with pages is not free any more. */
  #useWarm(taken: Extent): void {
    if (this.#warm.length === 0) return;
    this.#warm = this.#warm.flatMap((extent) => {
      if (extent.end <= taken.at || extent.at >= taken.end) return [extent];
      const left = [
        { at: extent.at, end: taken.at },
        { at: taken.end, end: extent.end },
      ].filter(({ at, end }) => end > at);
      const leftBytes = left.reduce((sum, { at, end }) => sum + end - at, 0);
      this.#warmBytes -= extent.end - extent.at - leftBytes;
      return left;
    });
  }
}
