import type { DirectoryStream, ListedItem } from "./directory-stream.ts";
import { childPathOf, parentPathOf } from "./file-name.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";

/** After so many names of one directory, asked one by one, it is listed instead. */
const ASKED_BEFORE = 8;
/** Where it helped, the next time comes sooner, and still after more requests than it costs. */
const ASKED_AGAIN = 2;
const SILENCE_MAX_MS = 5000;
/** The first page did not help with the name: the directory is large, or changes all the time. */
const DISAPPOINTED_MS = 10_000;
const DIRECTORIES_MAX = 1000;

interface Asked {
  count: number;
  lastMs: number;
  notBeforeMs: number;
  refreshing: Promise<void> | undefined;
}

/**
 * Programs that look at all files of a directory again and again would cost two requests for each
 * of them whenever the metadata has expired. One listing says of a thousand that they are the same
 * still. INVARIANT: it only prolongs what is known and unchanged; all else is left to a lookup.
 */
export class SiblingRefresh {
  readonly #table: InodeTable;
  readonly #list: (directory: Inode) => DirectoryStream;
  readonly #byDirectory = new Map<string, Asked>();

  constructor(table: InodeTable, list: (directory: Inode) => DirectoryStream) {
    this.#table = table;
    this.#list = list;
  }

  /** A name that was known has expired. The listing that may know it, when that pays. */
  refresh(known: Inode): Promise<void> | undefined {
    const directory = this.#table.current(parentPathOf(known.path));
    if (directory?.kind !== "directory") return undefined;
    const asked = this.#askedOf(directory.path);
    if (asked.refreshing !== undefined) return asked.refreshing;
    asked.count += 1;
    if (asked.count <= ASKED_BEFORE || performance.now() < asked.notBeforeMs) return undefined;
    asked.refreshing = this.#prolong(directory, known, asked).finally(() => {
      asked.refreshing = undefined;
    });
    return asked.refreshing;
  }

  #askedOf(path: string): Asked {
    const nowMs = performance.now();
    const known = this.#byDirectory.get(path);
    if (known !== undefined) {
      if (nowMs - known.lastMs > SILENCE_MAX_MS) known.count = 0;
      known.lastMs = nowMs;
      return known;
    }
    if (this.#byDirectory.size >= DIRECTORIES_MAX) this.#byDirectory.clear();
    const asked = { count: 0, lastMs: nowMs, notBeforeMs: 0, refreshing: undefined };
    this.#byDirectory.set(path, asked);
    return asked;
  }

  async #prolong(directory: Inode, wanted: Inode, asked: Asked): Promise<void> {
    const stream = this.#list(directory);
    try {
      await stream.load(0);
    } catch {
      return; // the lookup itself will tell
    }
    for (let index = 0; index < stream.loadedCount; index++) {
      const item = stream.item(index);
      if (item === undefined || item.local) continue;
      const known = this.#table.current(childPathOf(directory.path, item.name));
      if (known === undefined || !isUnchanged(known, item)) continue;
      known.validUntilMs = Math.max(known.validUntilMs, item.validUntilMs);
    }
    const helped = wanted.validUntilMs > performance.now();
    if (helped) asked.count = ASKED_BEFORE - ASKED_AGAIN;
    else asked.notBeforeMs = performance.now() + DISAPPOINTED_MS;
  }
}

function isUnchanged(known: Inode, { kind, object }: ListedItem): boolean {
  if (known.kind !== kind || known.local || known.upload !== undefined) return false;
  return (
    known.object?.etag === object?.etag &&
    known.object?.sizeBytes === object?.sizeBytes &&
    known.object?.archived === object?.archived
  );
}
