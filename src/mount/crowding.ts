import { encodeInvalidEntry } from "../fuse/notify.ts";
import type { InodeTable } from "../engine/inode-table.ts";

export interface CrowdingDeps {
  readonly notify: (message: Buffer) => Promise<void>;
  readonly onThinned: (inodes: number) => void;
  /** False when the journal can't take more names, however few they are: some paths are long. */
  readonly hasRoom: () => boolean;
}

/**
 * Keeps the inode table near its limit. The kernel alone decides when a nodeid may go, and with
 * memory to spare it keeps them all: so it is asked to forget the names that it used least.
 */
export class Crowding {
  readonly #table: InodeTable;
  readonly #limit: number;
  readonly #deps: CrowdingDeps;
  #thinning = false;

  constructor(table: InodeTable, limit: number, deps: CrowdingDeps) {
    this.#table = table;
    this.#limit = limit;
    this.#deps = deps;
  }

  /** So many that a listing shall not bring in more before some have gone. */
  get isFull(): boolean {
    return this.#table.size > this.#limit * 1.25 || !this.#deps.hasRoom();
  }

  /** Call it when the table has grown. */
  check(): void {
    const isCrowded = this.#table.size > this.#limit || !this.#deps.hasRoom();
    if (this.#thinning || !isCrowded) return;
    this.#thinning = true;
    void this.#thin().finally(() => {
      this.#thinning = false;
      this.#deps.onThinned(this.#table.size);
    });
  }

  async #thin(): Promise<void> {
    const { size } = this.#table;
    let excess = size - Math.floor(Math.min(this.#limit, size) * 0.9);
    for (; excess > 0; excess--) {
      const oldest = this.#table.takeOldest();
      if (oldest === undefined) return;
      const { parent, inode } = oldest;
      const name = inode.path.slice(inode.path.lastIndexOf("/") + 1);
      await this.#deps.notify(encodeInvalidEntry(parent.nodeid, name));
    }
  }
}
