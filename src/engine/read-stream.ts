import type { Buffer } from "node:buffer";
import type { ReaderAhead } from "./buffer-pool.ts";
import { FetchedRange } from "./fetched-range.ts";
import type { FetchSource } from "./fetched-range.ts";
import { Lane } from "./lane.ts";
import { Pace } from "./pace.ts";
import type { ReadingHabits } from "./reading-habits.ts";

/** What is read behind a seek that is not followed by a next read stays this small. */
const FIRST_WINDOW_BYTES = 1 << 20;
/** The kernel's parallel readahead arrives a little out of order. */
const DISORDER_BYTES = 4 << 20;
/** A long GET keeps a connection, also while its reader does something else. */
const LONG_READERS_MAX = 12;
/** With one GET, what lies ahead only evens out: together they need no more than one alone. */
const LONG_WINDOWS_BYTES = 32 << 20;
const LONG_WINDOW_BYTES_MIN = 8 << 20;
/** A hiccup shall not look like a server that is slow. */
const LAP_BYTES_MIN = 16 << 20;

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
 * Reads of one open file. Sequential reads are served from a window ahead of the reader, which
 * doubles while the reader follows it. One GET for all that follows fills it as long as S3 keeps
 * ahead, since each costs the server a millisecond or two; else ranged GETs do that run in
 * parallel. A read elsewhere is one exact GET and halves the window, until a reader at random has
 * none; only a second read behind it moves the window there.
 * INVARIANT: ranges are adjacent and in order.
 */
export class ReadStream implements ReaderAhead {
  readonly #source: FetchSource;
  readonly #objectBytes: number;
  readonly #sizes: ReadSizes;
  readonly #habits: ReadingHabits;
  #ranges: FetchedRange[] = [];
  /** The last range's one. */
  #lane: Lane | undefined;
  #windowBytes = FIRST_WINDOW_BYTES;
  #startBytes = 0;
  #readEndBytes = 0;
  #pace: Pace | undefined;
  #strayEndBytes = 0;
  /** READs that are not answered yet. */
  #waiting = 0;
  #wasGivenBack = false;

  constructor(source: FetchSource, sizes: ReadSizes, habits: ReadingHabits) {
    this.#source = source;
    this.#objectBytes = source.objectBytes;
    this.#sizes = sizes;
    this.#habits = habits;
  }

  async read(offsetBytes: number, sizeBytes: number): Promise<Lent> {
    const endBytes = Math.min(offsetBytes + sizeBytes, this.#objectBytes);
    if (endBytes <= offsetBytes) return NOTHING;
    this.#waiting += 1;
    try {
      return await this.#read(offsetBytes, endBytes);
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Fetches from the start of the object; settles when S3 has begun to answer. */
  async begin(): Promise<void> {
    const lent = await this.read(0, 1);
    lent.release();
  }

  /** A next read behind the last one begins another window. */
  giveBack(): number {
    if (this.#waiting > 0) return 0;
    const sizeBytes = this.#ranges.reduce((sum, range) => sum + range.sizeBytes, 0);
    this.close();
    this.#strayEndBytes = this.#readEndBytes;
    this.#wasGivenBack = true;
    return sizeBytes;
  }

  close(): void {
    for (const range of this.#ranges) range.discard();
    this.#ranges = [];
    this.#leaveLane();
    this.#source.pool.removeReader(this);
    this.#tellHabit();
    this.#pace = undefined;
  }

  #read(offsetBytes: number, endBytes: number): Promise<Lent> {
    const nowMs = this.#source.pool.nowMs();
    if (!this.#isInWindow(offsetBytes)) {
      const follows = offsetBytes === this.#strayEndBytes;
      if (!follows) this.#shrink();
      if (!follows || !this.#mayRestart(offsetBytes)) {
        return this.#readStray(offsetBytes, endBytes);
      }
      this.#restart(offsetBytes, nowMs);
    }
    this.#source.pool.noteRead(this, nowMs);
    this.#advance(offsetBytes, endBytes);
    return this.#collect(offsetBytes, endBytes);
  }

  /** Where more files are read at once than memory has windows for, they would rob each other. */
  #mayRestart(offsetBytes: number): boolean {
    if (!this.#wasGivenBack) return true;
    const sizeBytes = Math.min(FIRST_WINDOW_BYTES, this.#objectBytes - offsetBytes);
    return this.#source.pool.makeRoomFor(sizeBytes);
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

  #restart(offsetBytes: number, nowMs: number): void {
    this.close();
    this.#source.pool.noteRead(this, nowMs);
    this.#wasGivenBack = false;
    this.#windowBytes = FIRST_WINDOW_BYTES;
    this.#startBytes = offsetBytes;
    this.#readEndBytes = offsetBytes;
    const isExpected = offsetBytes === 0 && this.#habits.readOn;
    this.#pace = new Pace(isExpected, nowMs);
    this.#extend(offsetBytes, offsetBytes + FIRST_WINDOW_BYTES);
  }

  /** Random reads that happen to hit a window would make it grow, and fetch it in vain. */
  #shrink(): void {
    if (this.#windowBytes > FIRST_WINDOW_BYTES) this.#windowBytes /= 2;
    else this.close();
  }

  async #readStray(offsetBytes: number, endBytes: number): Promise<Lent> {
    this.#strayEndBytes = endBytes;
    this.#source.pool.makeRoomFor(endBytes - offsetBytes);
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
    const isFull = this.#ranges.every((range) => range.isFilled);
    this.#pace?.read(Math.max(0, endBytes - this.#readEndBytes), isFull);
    this.#readEndBytes = Math.max(this.#readEndBytes, endBytes);
    const behindBytes = Math.min(this.#readEndBytes - DISORDER_BYTES, offsetBytes);
    while (this.#ranges.length > 1) {
      const [first] = this.#ranges;
      if (first === undefined || first.endBytes > behindBytes) break;
      this.#ranges.shift();
      first.discard();
    }
    if (this.#pace !== undefined && this.#isLap(this.#pace.lapBytes)) {
      this.#pace.endLap(this.#source.pool.nowMs());
      if (!this.#isLong && this.#laneEnd > this.#windowEnd) this.#leaveLane();
      this.#grow();
    }
    this.#extend(this.#windowEnd, this.#readEndBytes + this.#windowBytes);
  }

  /** All that follows is asked for by one GET. */
  get #isLong(): boolean {
    const isAllowed = this.#sizes.longGets && this.#source.pool.readers <= LONG_READERS_MAX;
    return isAllowed && this.#pace?.isOutpaced === true;
  }

  /** Of whoever began at the beginning, of a file that is more than one short GET. */
  #tellHabit(): void {
    const isTold = this.#startBytes === 0 && this.#objectBytes > FIRST_WINDOW_BYTES;
    if (this.#pace === undefined || !isTold) return;
    const isThrough = this.#readEndBytes === this.#objectBytes;
    this.#habits.note(this.#pace.isUnderWay ? this.#pace.isOutpaced : isThrough);
  }

  /** Others may have begun to read ahead meanwhile: then it does not grow but shrink. */
  #grow(): void {
    const boundBytes = Math.min(this.#windowBytes * 2, this.#windowBytesMax);
    this.#windowBytes = Math.max(boundBytes, FIRST_WINDOW_BYTES);
  }

  get #windowBytesMax(): number {
    const { windowBytesMax, readers } = this.#source.pool;
    if (!this.#isLong) return windowBytesMax;
    const shareBytes = 2 ** Math.floor(Math.log2(LONG_WINDOWS_BYTES / Math.max(1, readers)));
    return Math.min(windowBytesMax, Math.max(shareBytes, LONG_WINDOW_BYTES_MIN));
  }

  /** Half a window was read; or more, of one that is small because it needs no more. */
  #isLap(readBytes: number): boolean {
    if (readBytes < this.#windowBytes / 2) return false;
    const isGrown = this.#windowBytes >= this.#windowBytesMax;
    return readBytes >= LAP_BYTES_MIN || !isGrown || !this.#isLong;
  }

  /** Adds ranges: what the reader waits for in any case, what lies ahead if there is room. */
  #extend(fromBytes: number, endBytes: number): void {
    let at = fromBytes;
    while (at < this.#objectBytes) {
      const begins = at >= this.#laneEnd;
      const laneEnd = begins ? this.#nextLaneEnd(at) : this.#laneEnd;
      const sizeBytes = Math.min(this.#nextRangeBytes(), laneEnd - at);
      const wanted = at < this.#readEndBytes || this.#ranges.length === 0;
      const fits = at + sizeBytes <= endBytes && this.#source.pool.makeRoomFor(sizeBytes);
      if (!wanted && !fits) return;
      if (wanted) this.#source.pool.makeWayFor(sizeBytes);
      if (begins) this.#lane = new Lane(laneEnd);
      this.#ranges.push(new FetchedRange(this.#source, at, sizeBytes, this.#lane));
      at += sizeBytes;
    }
  }

  get #laneEnd(): number {
    return this.#lane?.endBytes ?? -1;
  }

  #nextLaneEnd(offsetBytes: number): number {
    const endBytes = this.#isLong ? this.#objectBytes : offsetBytes + this.#nextRangeBytes();
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
