import { Failure } from "../base/failure.ts";
import type { ObjectInfo } from "../s3/object-store.ts";
import { parentPathOf } from "./file-name.ts";
import { Inode } from "./inode.ts";

export const ROOT_NODEID = 1;
const OLDEST_TRIES_MAX = 100;

/**
 * Nodeids and paths. A path has one current inode; older versions of it live on by nodeid alone,
 * for as long as the kernel remembers them. A nodeid is never used twice.
 */
export class InodeTable {
  readonly #byNodeid = new Map<number, Inode>();
  readonly #byPath = new Map<string, Inode>();
  readonly #local = new Set<Inode>();
  /** The longest unused first. */
  readonly #unused = { file: new Set<Inode>(), directory: new Set<Inode>() };
  #nextNodeid = ROOT_NODEID;

  constructor() {
    this.#add("", "directory").lookups = 1; // the root is never forgotten
  }

  get size(): number {
    return this.#byNodeid.size;
  }

  get(nodeid: number): Inode {
    const inode = this.#byNodeid.get(nodeid);
    if (inode === undefined) throw new Failure("stale", `nodeid ${nodeid} is not known`);
    return inode;
  }

  current(path: string): Inode | undefined {
    return this.#byPath.get(path);
  }

  /** The kernel was told of it again. */
  touch(inode: Inode): void {
    this.#unused[inode.kind].delete(inode);
    this.#unused[inode.kind].add(inode);
  }

  /**
   * What the kernel remembers and was not asked about for longest, with its parent; a directory
   * only when there is no such file, since it may be where somebody works. It counts as used.
   */
  takeOldest(): { readonly parent: Inode; readonly inode: Inode } | undefined {
    for (const kind of ["file", "directory"] as const) {
      let tries = OLDEST_TRIES_MAX;
      for (const inode of this.#unused[kind]) {
        if (tries-- === 0) break;
        this.touch(inode);
        const parent = this.#byPath.get(parentPathOf(inode.path));
        const isCurrent = this.#byPath.get(inode.path) === inode && inode.path !== "";
        if (parent !== undefined && isCurrent && inode.isOnlyRemembered) return { parent, inode };
      }
    }
    return undefined;
  }

  /** Files and directories of a directory that S3 does not know yet. */
  localChildren(parentPath: string): Inode[] {
    return [...this.#local].filter((inode) => parentPathOf(inode.path) === parentPath);
  }

  /** What S3 has there now: the known inode if it is the same thing, else a new one. */
  bindDirectory(path: string): Inode {
    const known = this.#byPath.get(path);
    const inode = known?.kind === "directory" ? known : this.#add(path, "directory");
    this.#setLocal(inode, false);
    return inode;
  }

  bindFile(path: string, object: ObjectInfo): Inode {
    const known = this.#byPath.get(path);
    const same = known?.kind === "file" && known.object?.etag === object.etag;
    const inode = same ? known : this.#add(path, "file");
    inode.object = object;
    return inode;
  }

  addLocal(path: string, kind: "file" | "directory"): Inode {
    const inode = this.#add(path, kind);
    this.#setLocal(inode, true);
    return inode;
  }

  /** An upload succeeded: the file and all directories above it exist in S3 from now on. */
  markRemote(inode: Inode): void {
    this.#setLocal(inode, false);
    for (let path = parentPathOf(inode.path); path !== ""; path = parentPathOf(path)) {
      const parent = this.#byPath.get(path);
      if (parent !== undefined) this.#setLocal(parent, false);
    }
    this.prune(inode);
  }

  /** The path leads elsewhere or nowhere from now on; open files keep their inode. */
  unbind(inode: Inode): void {
    if (this.#byPath.get(inode.path) === inode) this.#byPath.delete(inode.path);
    this.#setLocal(inode, false);
    this.prune(inode);
  }

  /** Never below zero, whatever the count says: then the kernel has forgotten it all. */
  forget(nodeid: number, count: number): void {
    const inode = this.#byNodeid.get(nodeid);
    if (inode === undefined || nodeid === ROOT_NODEID) return;
    inode.lookups = Math.max(0, inode.lookups - count);
    this.prune(inode);
  }

  /** Call it whenever one of the reasons to keep an inode has gone. */
  prune(inode: Inode): void {
    if (inode.inUse) return;
    this.#byNodeid.delete(inode.nodeid);
    this.#unused[inode.kind].delete(inode);
    if (this.#byPath.get(inode.path) === inode) this.#byPath.delete(inode.path);
  }

  #add(path: string, kind: "file" | "directory"): Inode {
    const inode = new Inode(this.#nextNodeid++, path, kind);
    const former = this.#byPath.get(path);
    this.#byNodeid.set(inode.nodeid, inode);
    this.#unused[kind].add(inode);
    this.#byPath.set(path, inode);
    if (former !== undefined) {
      this.#setLocal(former, false);
      this.prune(former);
    }
    return inode;
  }

  #setLocal(inode: Inode, local: boolean): void {
    inode.local = local;
    if (local) this.#local.add(inode);
    else this.#local.delete(inode);
  }
}
