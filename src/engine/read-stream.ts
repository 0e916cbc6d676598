import type { Buffer } from "node:buffer";
import type { ReaderAhead } from "./buffer-pool.ts";
import { FetchedRange } from "./fetched-range.ts";
import type { FetchSource } from "./fetched-range.ts";
import { Lane } from "./lane.ts";

/** What is read behind a seek that is not followed by a next read stays this small. */
const FIRST_WINDOW_BYTES = 1 << 20;
/** The kernel's parallel readahead arrives a little out of order. */
const DISORDER_BYTES = 4 << 20;
/** Who takes longer for half a window is in no hurry, and would let a long GET wait. */
const LAP_LIMIT_MS = 5000;

export interface ReadSizes {
  /** Of the buffers, and of GETs that run in parallel. */
  readonly partBytes: number;
  /** Where one GET is enough, it may go on to the end of the object. */
  readonly longGets: boolean;
}

export interface Lent {
  readonly chunks: readonly Buffer[];
  release(): void;
}

const NOTHING: Lent = { chunks: [], release: () => undefined };

/**
 * Reads of one open file. Sequential reads are served from a window of ranged GETs that run in
 * parallel ahead of the reader; it doubles while the reader follows it. Once S3 is a whole window
 * ahead, a single GET brings all that follows: each costs the server a millisecond or two. A read
 * elsewhere is one exact GET and halves the window, until a reader at random has none; only a
 * second read behind it moves the window there.
 * INVARIANT: ranges are adjacent and in order.
 */
export class ReadStream implements ReaderAhead {
  lastReadMs = 0;
  readonly #source: FetchSource;
  readonly #objectBytes: number;
  readonly #sizes: ReadSizes;
  #ranges: FetchedRange[] = [];
  /** The last range's one. */
  #lane: Lane | undefined;
  #windowBytes = FIRST_WINDOW_BYTES;
  #readEndBytes = 0;
  #grownAtBytes = 0;
  #grownAtMs = 0;
  #wasFull = false;
  #isOutpaced = false;
  #strayEndBytes = 0;

  constructor(source: FetchSource, objectBytes: number, sizes: ReadSizes) {
    this.#source = source;
    this.#objectBytes = objectBytes;
    this.#sizes = sizes;
  }

  async read(offsetBytes: number, sizeBytes: number): Promise<Lent> {
    const endBytes = Math.min(offsetBytes + sizeBytes, this.#objectBytes);
    if (endBytes <= offsetBytes) return NOTHING;
    if (!this.#isInWindow(offsetBytes)) {
      if (offsetBytes !== this.#strayEndBytes) {
        this.#shrink();
        return this.#readStray(offsetBytes, endBytes);
      }
      this.#restart(offsetBytes);
    }
    this.lastReadMs = this.#source.pool.nowMs();
    this.#advance(offsetBytes, endBytes);
    return this.#collect(offsetBytes, endBytes);
  }

  close(): void {
    for (const range of this.#ranges) range.discard();
    this.#ranges = [];
    this.#leaveLane();
    this.#source.pool.removeReader(this);
  }

  get #windowStart(): number {
    return this.#ranges[0]?.offsetBytes ?? -1;
  }

  get #windowEnd(): number {
    return this.#ranges.at(-1)?.endBytes ?? -1;
  }

  #isInWindow(offsetBytes: number): boolean {
    if (this.#ranges.some((range) => range.failed)) this.close(); // a retry starts afresh
    if (this.#ranges.length === 0) return false;
    return offsetBytes >= this.#windowStart && offsetBytes <= this.#windowEnd + DISORDER_BYTES;
  }

  #restart(offsetBytes: number): void {
    this.close();
    this.#source.pool.addReader(this);
    this.#windowBytes = FIRST_WINDOW_BYTES;
    this.#readEndBytes = offsetBytes;
    this.#grownAtBytes = offsetBytes;
    this.#grownAtMs = this.#source.pool.nowMs();
    this.#wasFull = false;
    this.#isOutpaced = false;
    this.#extend(offsetBytes, offsetBytes + FIRST_WINDOW_BYTES);
  }

  /** Random reads that happen to hit a window would make it grow, and fetch it in vain. */
  #shrink(): void {
    if (this.#windowBytes > FIRST_WINDOW_BYTES) this.#windowBytes /= 2;
    else this.close();
  }

  async #readStray(offsetBytes: number, endBytes: number): Promise<Lent> {
    this.#strayEndBytes = endBytes;
    const range = new FetchedRange(this.#source, offsetBytes, endBytes - offsetBytes);
    try {
      const chunk = await range.bytes(offsetBytes, endBytes);
      return { chunks: [chunk], release: () => range.discard() };
    } catch (error) {
      range.discard();
      throw error;
    }
  }

  /** The reader has come to `endBytes`: let go of what lies behind it, fetch ahead of it. */
  #advance(offsetBytes: number, endBytes: number): void {
    if (this.#ranges.every((range) => range.isFilled)) this.#wasFull = true;
    this.#readEndBytes = Math.max(this.#readEndBytes, endBytes);
    const behindBytes = Math.min(this.#readEndBytes - DISORDER_BYTES, offsetBytes);
    while (this.#ranges.length > 1) {
      const [first] = this.#ranges;
      if (first === undefined || first.endBytes > behindBytes) break;
      this.#ranges.shift();
      first.discard();
    }
    if (this.#readEndBytes - this.#grownAtBytes >= this.#windowBytes / 2) {
      this.#choosePace();
      this.#grow();
    }
    this.#extend(this.#windowEnd, this.#readEndBytes + this.#windowBytes);
  }

  /** Since the window has last grown: was all of it there before the reader was? */
  #choosePace(): void {
    const nowMs = this.#source.pool.nowMs();
    const isSlow = nowMs - this.#grownAtMs > LAP_LIMIT_MS;
    this.#isOutpaced = this.#sizes.longGets && this.#wasFull && !isSlow;
    if (!this.#isOutpaced && this.#laneEnd > this.#windowEnd) this.#leaveLane();
    this.#wasFull = false;
    this.#grownAtMs = nowMs;
  }

  /** Others may have begun to read ahead meanwhile: then it does not grow but shrink. */
  #grow(): void {
    const boundBytes = Math.min(this.#windowBytes * 2, this.#source.pool.windowBytesMax);
    this.#windowBytes = Math.max(boundBytes, FIRST_WINDOW_BYTES);
    this.#grownAtBytes = this.#readEndBytes;
  }

  /** Adds ranges: what the reader waits for in any case, what lies ahead if there is room. */
  #extend(fromBytes: number, endBytes: number): void {
    let at = fromBytes;
    while (at < this.#objectBytes) {
      const begins = at >= this.#laneEnd;
      const laneEnd = begins ? this.#nextLaneEnd(at) : this.#laneEnd;
      const sizeBytes = Math.min(this.#nextRangeBytes(), laneEnd - at);
      const wanted = at < this.#readEndBytes || this.#ranges.length === 0;
      const fits = at + sizeBytes <= endBytes && this.#source.pool.hasRoomFor(sizeBytes);
      if (!wanted && !fits) return;
      if (begins) this.#lane = new Lane(laneEnd);
      this.#ranges.push(new FetchedRange(this.#source, at, sizeBytes, this.#lane));
      at += sizeBytes;
    }
  }

  get #laneEnd(): number {
    return this.#lane?.endBytes ?? -1;
  }

  #nextLaneEnd(offsetBytes: number): number {
    const endBytes = this.#isOutpaced ? this.#objectBytes : offsetBytes + this.#nextRangeBytes();
    return Math.min(endBytes, this.#objectBytes);
  }

  /** What follows begins another one. */
  #leaveLane(): void {
    this.#lane?.close();
    this.#lane = undefined;
  }

  /** Small at first, so that the first bytes come soon; then as large as the window has earned. */
  #nextRangeBytes(): number {
    const share = Math.max(FIRST_WINDOW_BYTES, this.#windowBytes / 2);
    return Math.min(this.#sizes.partBytes, share);
  }

  async #collect(offsetBytes: number, endBytes: number): Promise<Lent> {
    const ranges = this.#ranges.filter(
      (range) => range.offsetBytes < endBytes && range.endBytes > offsetBytes,
    );
    for (const range of ranges) range.hold();
    const release = () => {
      for (const range of ranges) range.release();
    };
    try {
      const chunks: Buffer[] = [];
      for (const range of ranges) {
        const fromBytes = Math.max(offsetBytes, range.offsetBytes);
        chunks.push(await range.bytes(fromBytes, Math.min(endBytes, range.endBytes)));
      }
      return { chunks, release };
    } catch (error) {
      release();
      throw error;
    }
  }
}
