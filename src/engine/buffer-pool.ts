import { Buffer } from "node:buffer";

/** Smaller buffers are cheap to make. */
const KEPT_BYTES_MIN = 1 << 20;
/** Enough for one reader or writer at full speed; who needs more makes more. */
const IDLE_BYTES_MAX = 32 << 20;
/** Four parts of the default size: more in flight is only more memory, not more speed. */
const WINDOW_BYTES_MAX = 32 << 20;
/** All readers together read ahead in this share of the limit. */
const READ_AHEAD_SHARE = 1 / 8;

/** Who has not read for so long leaves its share to the others. */
const READING_MS = 1000;

/** Memory whose bytes may be anything. */
export type Allocate = (sizeBytes: number) => Buffer;

export interface PoolOptions {
  readonly allocate?: Allocate | undefined;
  readonly nowMs?: () => number;
}

export interface ReaderAhead {
  /** Lets go of what it has fetched, unless a READ waits for it. Returns how much that is. */
  giveBack(): number;
}

/**
 * Large buffers, used again: fresh memory costs a page fault for every 4 KiB. Also the account of
 * all data that was fetched for readers. An open file keeps its window for as long as there is
 * memory: beyond the limit, the file that was not read for longest gives its window back first.
 */
export class BufferPool {
  readonly nowMs: () => number;
  readonly #allocate: Allocate;
  readonly #limitBytes: number;
  readonly #idleBytesMax: number;
  readonly #readAheadBytes: number;
  /** Readers with a window and the time of their last READ, the longest ago first. */
  readonly #reading = new Map<ReaderAhead, number>();
  /** Gives back the windows of readers whose last READ is more than READING_MS ago. */
  readonly #resting = new Set<ReaderAhead>();
  #latest: ReaderAhead | undefined;
  /** The longest unused first. */
  readonly #idle: Buffer[] = [];
  #usedBytes = 0;
  #idleBytes = 0;

  constructor(limitBytes: number, { allocate, nowMs }: PoolOptions = {}) {
    this.nowMs = nowMs ?? (() => performance.now());
    this.#allocate = allocate ?? ((sizeBytes) => Buffer.allocUnsafeSlow(sizeBytes));
    this.#limitBytes = limitBytes;
    this.#idleBytesMax = Math.min(IDLE_BYTES_MAX, limitBytes / 2);
    const oneWindowBytes = Math.min(limitBytes / 2, WINDOW_BYTES_MAX);
    this.#readAheadBytes = Math.max(limitBytes * READ_AHEAD_SHARE, oneWindowBytes);
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /**
   * How far one reader may read ahead, while so many do; open files where nobody reads do not
   * count. A power of two, so that buffers of the same sizes come again.
   */
  get windowBytesMax(): number {
    const shareBytes = this.#readAheadBytes / Math.max(1, this.readers);
    return Math.min(WINDOW_BYTES_MAX, 2 ** Math.floor(Math.log2(shareBytes)));
  }

  /** How many of those with a window have read a moment ago. */
  get readers(): number {
    const sinceMs = this.nowMs() - READING_MS;
    for (const [reader, lastReadMs] of this.#reading) {
      if (lastReadMs >= sinceMs) break;
      this.#reading.delete(reader);
      this.#resting.add(reader);
    }
    return this.#reading.size;
  }

  /** The reader has a window and reads now. */
  noteRead(reader: ReaderAhead, nowMs: number): void {
    this.#resting.delete(reader); // also the latest one may have rested
    if (this.#latest !== reader) {
      this.#reading.delete(reader); // the latest one is the last
      this.#latest = reader;
    }
    this.#reading.set(reader, nowMs);
  }

  removeReader(reader: ReaderAhead): void {
    this.#reading.delete(reader);
    this.#resting.delete(reader);
    if (this.#latest === reader) this.#latest = undefined;
  }

  /** For what may be needed later: only files that nobody reads give way. */
  makeRoomFor(sizeBytes: number): boolean {
    const missingBytes = this.#missingFor(sizeBytes);
    if (missingBytes <= 0) return true;
    void this.readers; // moves those that rest to #resting
    return reclaim(this.#resting, missingBytes) <= 0;
  }

  /** For a window that a READ waits for: files that others read now give way, too. */
  makeWayFor(sizeBytes: number): void {
    if (this.makeRoomFor(sizeBytes)) return;
    reclaim(this.#reading.keys(), this.#missingFor(sizeBytes));
  }

  /** Bytes that a READ waits for may go over the limit; for all else ask makeRoomFor() first. */
  take(sizeBytes: number): Buffer {
    this.#usedBytes += sizeBytes;
    const index = this.#idle.findLastIndex(({ length }) => length === sizeBytes);
    const [reused] = index === -1 ? [] : this.#idle.splice(index, 1);
    if (reused === undefined) return this.#allocate(sizeBytes);
    this.#idleBytes -= sizeBytes;
    return reused;
  }

  #missingFor(sizeBytes: number): number {
    return this.#usedBytes + sizeBytes - this.#limitBytes;
  }

  /** Nobody may look at it afterwards: its memory is somebody else's, or gone. */
  give(buffer: Buffer): void {
    this.#usedBytes -= buffer.length;
    if (buffer.length < KEPT_BYTES_MIN) return;
    this.#idle.push(buffer);
    this.#idleBytes += buffer.length;
    while (this.#idleBytes > this.#idleBytesMax) {
      const oldest = this.#idle.shift();
      if (oldest === undefined) return;
      this.#idleBytes -= oldest.length;
      freeNow(oldest);
    }
  }
}

/** Takes from the first ones on. Returns how much is missing still; zero or less is enough. */
function reclaim(readers: Iterable<ReaderAhead>, missingBytes: number): number {
  let leftBytes = missingBytes;
  for (const reader of readers) {
    if (leftBytes <= 0) break;
    leftBytes -= reader.giveBack();
  }
  return leftBytes;
}

/** The garbage collector may not come by for long, since it sees only a small object. */
function freeNow(buffer: Buffer): void {
  if (buffer.buffer instanceof ArrayBuffer) buffer.buffer.transfer(0);
}
