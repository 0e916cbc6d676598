import type { DirectoryStream } from "./directory-stream.ts";
import { nameOf, parentPathOf } from "./file-name.ts";
import { FlatWalk } from "./flat-walk.ts";
import type { Stamp, Told } from "./flat-walk.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import type { Namespace } from "./namespace.ts";

/** So many directories are listed before somebody opens them. */
const AHEAD = 3;
/** Files may lie between two directories of a listing. */
const NEIGHBOURS = 16;
/** The longest that such a listing may be old when it is used. */
const FRESH_MAX_MS = 1000;
const PARENTS_MAX = 256;
/** Each may hold three pages of keys. */
const FLAT_WALKS_MAX = 4;

interface Prepared {
  readonly stream: DirectoryStream;
  readonly stamp: Stamp;
}

/**
 * A program that walks a tree opens one directory after the other, in the order in which their
 * parent has named them: the next ones are asked for while it reads this one. Where they are small,
 * many are asked for at once.
 */
export class WalkAhead {
  readonly #table: InodeTable;
  readonly #names: Pick<Namespace, "list" | "below">;
  readonly #freshMs: number;
  readonly #prepared = new Map<number, Prepared>();
  /** By the path of their parent: which directory would be next. */
  readonly #expected = new Map<string, number>();
  /** By the path of the parent, too. */
  readonly #flat = new Map<string, { readonly walk: FlatWalk; usedMs: number }>();
  /** The last one that was opened below each of the last few parents. */
  readonly #last = new Map<string, DirectoryStream>();

  constructor(table: InodeTable, names: Pick<Namespace, "list" | "below">, freshMs: number) {
    this.#table = table;
    this.#names = names;
    this.#freshMs = Math.min(freshMs, FRESH_MAX_MS);
  }

  /** The listing of a directory that is being opened. */
  open(directory: Inode): DirectoryStream {
    const stream = this.#take(directory) ?? this.#names.list(directory);
    stream.load(0).catch(() => undefined); // the caller's own comes first
    if (this.#freshMs > 0 && directory.path !== "") {
      this.#goAhead(directory);
      this.#remember(parentPathOf(directory.path), stream);
    }
    return stream;
  }

  #remember(parent: string, stream: DirectoryStream): void {
    this.#last.delete(parent);
    this.#last.set(parent, stream);
    const [oldest] = this.#last.keys();
    if (this.#last.size > FLAT_WALKS_MAX && oldest !== undefined) this.#last.delete(oldest);
  }

  #take({ nodeid }: Inode): DirectoryStream | undefined {
    const prepared = this.#prepared.get(nodeid);
    this.#prepared.delete(nodeid);
    return prepared !== undefined && this.#isFresh(prepared.stamp) ? prepared.stream : undefined;
  }

  readonly #stamp = (): Stamp => ({ sinceMs: performance.now(), changes: this.#table.changes });

  /** What is changed here is seen here at once. */
  #isFresh({ sinceMs, changes }: Stamp): boolean {
    return changes === this.#table.changes && performance.now() - sinceMs < this.#freshMs;
  }

  #goAhead(directory: Inode): void {
    const parent = parentPathOf(directory.path);
    const isWalk = this.#expected.get(parent) === directory.nodeid;
    let next = this.#nextOf(directory);
    const isAgain = next !== undefined && this.#expected.get(parent) === next.nodeid;
    if (this.#expected.size >= PARENTS_MAX) this.#expected.clear();
    if (next !== undefined) this.#expected.set(parent, next.nodeid);
    if (next === undefined || !(isWalk || isAgain)) this.#drop(parent);
    for (let n = isWalk ? 0 : AHEAD; n < AHEAD && next !== undefined; n++) {
      if (!this.#prepared.has(next.nodeid)) this.#prepare(next, parent);
      next = this.#nextOf(next);
    }
  }

  #prepare(directory: Inode, parent: string): void {
    if (this.#prepared.size > 4 * AHEAD) this.#prepared.clear(); // of walks that went elsewhere
    const told = this.#told(directory, parent);
    const stamp = told?.stamp ?? this.#stamp();
    const stream = this.#names.list(directory, undefined, told);
    this.#prepared.set(directory.nodeid, { stream, stamp });
    stream.load(0).catch(() => undefined); // whoever opens it asks again and is told
  }

  #told(directory: Inode, parent: string): Told | undefined {
    const name = nameOf(directory.path);
    const walk = this.#flatWalk(parent);
    const told = walk?.find(name, (count) => this.#namesBehind(directory, count));
    if (told === undefined || this.#isFresh(told.stamp)) return told;
    walk?.end(); // its walker is too slow, or changes what it walks through
    return undefined;
  }

  /** Where the directory before was small, those that follow may be, too. */
  #flatWalk(parent: string): FlatWalk | undefined {
    const nowMs = performance.now();
    const known = this.#flat.get(parent);
    if (known !== undefined) {
      known.usedMs = nowMs;
      return known.walk;
    }
    if (this.#last.get(parent)?.isSmallLeaf !== true) return undefined;
    for (const [left, { usedMs }] of this.#flat) {
      if (nowMs - usedMs >= this.#freshMs) this.#drop(left);
    }
    if (this.#flat.size >= FLAT_WALKS_MAX) return undefined;
    const walk = new FlatWalk(this.#names.below(parent), this.#stamp);
    this.#flat.set(parent, { walk, usedMs: nowMs });
    return walk;
  }

  #drop(parent: string): void {
    this.#flat.get(parent)?.walk.end();
    this.#flat.delete(parent);
  }

  #namesBehind(directory: Inode, count: number): string[] {
    const names: string[] = [];
    let next = this.#nextOf(directory);
    for (; next !== undefined && names.length < count; next = this.#nextOf(next)) {
      names.push(nameOf(next.path));
    }
    return names;
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
