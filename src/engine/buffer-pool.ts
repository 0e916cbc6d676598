import { Buffer } from "node:buffer";

/**
 * Large buffers, used again: fresh memory costs a page fault for every 4 KiB. Also the account of
 * all data on its way: readers ask it before they read ahead, writers before the next part.
 */
export class BufferPool {
  readonly #limitBytes: number;
  readonly #free = new Map<number, Buffer[]>();
  #usedBytes = 0;
  #freeBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  hasRoomFor(sizeBytes: number): boolean {
    return this.#usedBytes + sizeBytes <= this.#limitBytes;
  }

  /** For optional memory: ask hasRoomFor() first. What must be, may go over the limit. */
  take(sizeBytes: number): Buffer {
    this.#usedBytes += sizeBytes;
    const reused = this.#free.get(sizeBytes)?.pop();
    if (reused === undefined) return Buffer.allocUnsafeSlow(sizeBytes);
    this.#freeBytes -= sizeBytes;
    return reused;
  }

  give(buffer: Buffer): void {
    this.#usedBytes -= buffer.length;
    // Half of the limit may lie idle at most; small buffers are cheap to make.
    if (buffer.length >= 1 << 20 && this.#freeBytes + buffer.length <= this.#limitBytes / 2) {
      const list = this.#free.get(buffer.length) ?? [];
      list.push(buffer);
      this.#free.set(buffer.length, list);
      this.#freeBytes += buffer.length;
    }
  }
}
