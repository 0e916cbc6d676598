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
  readonly lastReadMs: number;
}

/**
 * Large buffers, used again: fresh memory costs a page fault for every 4 KiB. Also the account of
 * all data on its way: readers ask it before they read ahead, writers before the next part.
 */
export class BufferPool {
  readonly nowMs: () => number;
  readonly #allocate: Allocate;
  readonly #limitBytes: number;
  readonly #readAheadBytes: number;
  readonly #readers = new Set<ReaderAhead>();
  /** The longest unused first. */
  readonly #idle: Buffer[] = [];
  #usedBytes = 0;
  #idleBytes = 0;

  constructor(limitBytes: number, { allocate, nowMs }: PoolOptions = {}) {
    this.nowMs = nowMs ?? (() => performance.now());
    this.#allocate = allocate ?? ((sizeBytes) => Buffer.allocUnsafeSlow(sizeBytes));
    this.#limitBytes = limitBytes;
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

  /** Of those who read ahead: how many have read a moment ago. */
  get readers(): number {
    const sinceMs = this.nowMs() - READING_MS;
    let readers = 0;
    for (const { lastReadMs } of this.#readers) if (lastReadMs >= sinceMs) readers += 1;
    return readers;
  }

  addReader(reader: ReaderAhead): void {
    this.#readers.add(reader);
  }

  removeReader(reader: ReaderAhead): void {
    this.#readers.delete(reader);
  }

  hasRoomFor(sizeBytes: number): boolean {
    return this.#usedBytes + sizeBytes <= this.#limitBytes;
  }

  /** For optional memory: ask hasRoomFor() first. What must be, may go over the limit. */
  take(sizeBytes: number): Buffer {
    this.#usedBytes += sizeBytes;
    const index = this.#idle.findLastIndex(({ length }) => length === sizeBytes);
    const [reused] = index === -1 ? [] : this.#idle.splice(index, 1);
    if (reused === undefined) return this.#allocate(sizeBytes);
    this.#idleBytes -= sizeBytes;
    return reused;
  }

  /** Nobody may look at it afterwards: its memory is somebody else's, or gone. */
  give(buffer: Buffer): void {
    this.#usedBytes -= buffer.length;
    if (buffer.length < KEPT_BYTES_MIN) return;
    this.#idle.push(buffer);
    this.#idleBytes += buffer.length;
    while (this.#idleBytes > IDLE_BYTES_MAX) {
      const oldest = this.#idle.shift();
      if (oldest === undefined) return;
      this.#idleBytes -= oldest.length;
      freeNow(oldest);
    }
  }
}

/** The garbage collector may not come by for long, since it sees only a small object. */
function freeNow(buffer: Buffer): void {
  if (buffer.buffer instanceof ArrayBuffer) buffer.buffer.transfer(0);
}
