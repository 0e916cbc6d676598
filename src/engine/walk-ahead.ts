import type { DirectoryStream } from "./directory-stream.ts";
import { parentPathOf } from "./file-name.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";

/** So many directories are listed before somebody opens them. */
const AHEAD = 3;
/** Files may lie between two directories of a listing. */
const NEIGHBOURS = 16;
/** The longest that such a listing may be old when it is used. */
const FRESH_MAX_MS = 1000;
const PARENTS_MAX = 256;

interface Prepared {
  readonly stream: DirectoryStream;
  readonly sinceMs: number;
  /** Of the table, when it was asked for: what is changed here is seen here at once. */
  readonly changes: number;
}

export interface WalkOptions {
  readonly list: (directory: Inode) => DirectoryStream;
  readonly freshMs: number;
}

/**
 * A program that walks a tree opens one directory after the other, in the order in which their
 * parent has named them: the next ones are asked for while it reads this one.
 */
export class WalkAhead {
  readonly #table: InodeTable;
  readonly #options: WalkOptions;
  readonly #freshMs: number;
  readonly #prepared = new Map<number, Prepared>();
  /** By the path of their parent: which directory would be next. */
  readonly #expected = new Map<string, number>();

  constructor(table: InodeTable, options: WalkOptions) {
    this.#table = table;
    this.#options = options;
    this.#freshMs = Math.min(options.freshMs, FRESH_MAX_MS);
  }

  /** The listing of a directory that is being opened. */
  open(directory: Inode): DirectoryStream {
    const stream = this.#take(directory) ?? this.#options.list(directory);
    stream.load(0).catch(() => undefined); // the caller's own comes first
    if (this.#freshMs > 0 && directory.path !== "") this.#goAhead(directory);
    return stream;
  }

  #take({ nodeid }: Inode): DirectoryStream | undefined {
    const prepared = this.#prepared.get(nodeid);
    this.#prepared.delete(nodeid);
    if (prepared === undefined || prepared.changes !== this.#table.changes) return undefined;
    return performance.now() - prepared.sinceMs < this.#freshMs ? prepared.stream : undefined;
  }

  #goAhead(directory: Inode): void {
    const parent = parentPathOf(directory.path);
    const isWalk = this.#expected.get(parent) === directory.nodeid;
    let next = this.#nextOf(directory);
    if (this.#expected.size >= PARENTS_MAX) this.#expected.clear();
    if (next !== undefined) this.#expected.set(parent, next.nodeid);
    for (let n = isWalk ? 0 : AHEAD; n < AHEAD && next !== undefined; n++) {
      if (!this.#prepared.has(next.nodeid)) this.#prepare(next);
      next = this.#nextOf(next);
    }
  }

  #prepare(directory: Inode): void {
    if (this.#prepared.size > 4 * AHEAD) this.#prepared.clear(); // of walks that went elsewhere
    const stream = this.#options.list(directory);
    const prepared = { stream, sinceMs: performance.now(), changes: this.#table.changes };
    this.#prepared.set(directory.nodeid, prepared);
    stream.load(0).catch(() => undefined); // whoever opens it asks again and is told
  }

  /** A listing gives nodeids in its order. */
  #nextOf({ nodeid, path }: Inode): Inode | undefined {
    const parent = parentPathOf(path);
    for (let id = nodeid + 1; id <= nodeid + NEIGHBOURS; id++) {
      const other = this.#table.find(id);
      const isSibling = other?.kind === "directory" && parentPathOf(other.path) === parent;
      if (isSibling && this.#table.current(other.path) === other) return other;
    }
    return undefined;
  }
}
