import { nameOf } from "../engine/file-name.ts";
import type { InodeTable } from "../engine/inode-table.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import { encodeInvalidEntry } from "../fuse/notify.ts";
import type { Journal } from "../journal/journal.ts";

/** Shares of what the journal can hold: names are thinned out long before it is full. */
const CROWDED_SHARE = 0.8;
const FULL_SHARE = 0.9;
const THINNED_SHARE = 0.7;
/** The kernel's FORGETs come soon after it was asked. When there is none for so long, none will. */
const QUIET_MS = 1_000;
const ROOM_WAIT_MS = 10_000;

export interface CrowdingDeps {
  readonly notify: (message: Buffer) => Promise<void>;
  readonly onThinned: (inodes: number) => void;
  readonly journal: Pick<Journal, "hasRoom" | "capacityBytes" | "makeRoom">;
}

/**
 * Keeps the inode table near its limit, and the journal able to take more names. The kernel alone
 * decides when a nodeid may go, and with memory to spare it keeps them all: so it is asked to
 * forget the names that it used least.
 */
export class Crowding {
  readonly #table: InodeTable;
  readonly #limit: number;
  readonly #deps: CrowdingDeps;
  #isThinning = false;
  #makingRoom: Promise<void> | undefined;
  #onRoom: (() => void) | undefined;
  /**
   * Directories that the kernel has locked for a request that waits here, and how many do. It
   * would take the same lock to forget a name in one of them.
   */
  readonly #locked = new Map<number, number>();

  constructor(table: InodeTable, limit: number, deps: CrowdingDeps) {
    this.#table = table;
    this.#limit = limit;
    this.#deps = deps;
  }

  /** So many that a listing shall not bring in more before some have gone. */
  get isFull(): boolean {
    const { size, notedBytes } = this.#table;
    const isFull = size > this.#limit * 1.25 || notedBytes > this.#share(FULL_SHARE);
    return isFull || !this.#deps.journal.hasRoom;
  }

  /** Call it when the table has grown. */
  check(): void {
    const { size, notedBytes } = this.#table;
    const isCrowded = size > this.#limit || notedBytes > this.#share(CROWDED_SHARE);
    if (isCrowded || !this.#deps.journal.hasRoom) this.#startThinning();
  }

  /** Call it when the kernel has forgotten names. */
  forgotten(): void {
    if (this.#onRoom !== undefined && this.#hasRoom()) this.#onRoom();
  }

  /**
   * For a request in the directory `parent` that found no room in the journal: until there is some.
   * ENOMEM when all names are in use, or the kernel does not forget them in time. That includes
   * names in a directory that the kernel has locked for this very request.
   */
  async room(parent: number): Promise<void> {
    if (this.#hasRoom()) return;
    this.#locked.set(parent, (this.#locked.get(parent) ?? 0) + 1);
    try {
      this.#makingRoom ??= this.#makeRoom().finally(() => (this.#makingRoom = undefined));
      await this.#makingRoom;
    } finally {
      const others = (this.#locked.get(parent) ?? 0) - 1;
      if (others > 0) this.#locked.set(parent, others);
      else this.#locked.delete(parent);
    }
  }

  async #makeRoom(): Promise<void> {
    const endMs = performance.now() + ROOM_WAIT_MS;
    let notedBytes = Infinity;
    while (this.#table.notedBytes < notedBytes && performance.now() < endMs) {
      ({ notedBytes } = this.#table);
      this.#startThinning();
      await this.#roomOrQuiet();
      if (this.#hasRoom()) return;
    }
    if (this.#deps.journal.makeRoom()) return;
    throw new PosixFailure("ENOMEM", "no room for more names: see --inode-limit");
  }

  async #roomOrQuiet(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, QUIET_MS);
    this.#onRoom = resolve;
    await promise;
    this.#onRoom = undefined;
    clearTimeout(timer);
  }

  /** Later than possible: the next names shall not find the journal full again at once. */
  #hasRoom(): boolean {
    return this.#deps.journal.makeRoom() && this.#table.notedBytes <= this.#share(FULL_SHARE);
  }

  #startThinning(): void {
    if (this.#isThinning) return;
    this.#isThinning = true;
    void this.#thin().finally(() => {
      this.#isThinning = false;
      this.#deps.onThinned(this.#table.size);
    });
  }

  async #thin(): Promise<void> {
    const { size, notedBytes } = this.#table;
    const excess = size - Math.floor(Math.min(this.#limit, size) * 0.9);
    let excessBytes = notedBytes - this.#share(THINNED_SHARE);
    let asked = 0;
    while (asked < excess || (excessBytes > 0 && asked < size)) {
      const oldest = this.#table.takeOldest((nodeid) => this.#locked.has(nodeid));
      if (oldest === undefined) return;
      const { parent, inode } = oldest;
      asked += 1;
      excessBytes -= inode.notedBytes;
      await this.#deps.notify(encodeInvalidEntry(parent.nodeid, nameOf(inode.path)));
    }
  }

  #share(share: number): number {
    return this.#deps.journal.capacityBytes * share;
  }
}
