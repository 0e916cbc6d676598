import type { Inode } from "./inode.ts";

const DIRECTORIES_MAX = 1000;
/** A program that removes a tree comes to the directory soon after it has emptied it. */
const KEPT_MS = 300_000;

/**
 * Directories in which this mount has removed something. S3 may have nothing below them any more,
 * but the program that removes a tree still has to find them by name: the kernel drops an expired
 * dentry as soon as nobody uses it, and looks the name up again for rmdir(2).
 */
export class EmptiedDirectories {
  /** Until when each is kept, the next to expire first. */
  readonly #untilMs = new Map<Inode, number>();
  readonly #onEnd: (inode: Inode) => void;

  /** `onEnd` is called for those that are too many or too old, not for those deleted. */
  constructor(onEnd: (inode: Inode) => void) {
    this.#onEnd = onEnd;
  }

  add(inode: Inode): void {
    inode.emptied = true;
    this.#untilMs.delete(inode);
    this.#untilMs.set(inode, performance.now() + KEPT_MS);
    for (const [oldest, untilMs] of this.#untilMs) {
      if (this.#untilMs.size <= DIRECTORIES_MAX && untilMs > performance.now()) break;
      this.delete(oldest);
      this.#onEnd(oldest);
    }
  }

  /** False when it is too long ago that something was removed in it. */
  isKept(inode: Inode): boolean {
    return (this.#untilMs.get(inode) ?? 0) > performance.now();
  }

  delete(inode: Inode): void {
    inode.emptied = false;
    this.#untilMs.delete(inode);
  }

  /** A directory was removed: what it had goes with it. */
  endBelow(path: string): void {
    for (const inode of this.#untilMs.keys()) {
      if (!inode.path.startsWith(`${path}/`)) continue;
      this.delete(inode);
      this.#onEnd(inode);
    }
  }
}
