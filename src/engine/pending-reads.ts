import { within } from "../base/within.ts";
import type { Inode } from "./inode.ts";

/** The kernel hands out so many background requests at once (max_background). */
const BACKGROUND_MAX = 64;

/**
 * READ requests without an answer. They keep a RELEASE back: the kernel sends RELEASE only after
 * the reads ahead of a closed file have ended, and queues it behind those of all other files. An
 * OPEN overtakes it there.
 */
export class PendingReads {
  readonly #byInode = new Map<Inode, number>();
  readonly #watchers = new Set<() => void>();
  #count = 0;

  /** The READ's own promise, so that its answer is not delayed. */
  track<T>(inode: Inode, read: Promise<T>): Promise<T> {
    this.#add(inode, 1);
    const ended = () => {
      this.#add(inode, -1);
      for (const watcher of this.#watchers) watcher();
    };
    void read.then(ended, ended);
    return read;
  }

  /** All places for requests like RELEASE are taken. */
  get fillTheQueue(): boolean {
    return this.#count >= BACKGROUND_MAX;
  }

  /** Resolves when no READ keeps a RELEASE of the inode's files back, or the signal aborts. */
  async ended(inode: Inode, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const watcher = () => {
      if (!this.fillTheQueue && !this.#byInode.has(inode)) resolve();
    };
    this.#watchers.add(watcher);
    watcher();
    try {
      await within(promise, signal, () => new Error("READs are pending")).catch(() => undefined);
    } finally {
      this.#watchers.delete(watcher);
    }
  }

  #add(inode: Inode, change: 1 | -1): void {
    this.#count += change;
    const count = (this.#byInode.get(inode) ?? 0) + change;
    if (count === 0) this.#byInode.delete(inode);
    else this.#byInode.set(inode, count);
  }
}
