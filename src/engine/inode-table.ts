import { Failure } from "../base/failure.ts";
import type { InodeRecord, JournalRecord } from "../journal/record.ts";
import type { SavedState } from "../journal/saved-state.ts";
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
  readonly #note: (record: JournalRecord) => void;
  /** Counts what was made, removed or uploaded by us. */
  #changes = 0;
  #nextNodeid = ROOT_NODEID;

  /** `note`: what has to outlive this process. */
  constructor(note: (record: JournalRecord) => void, saved?: SavedState) {
    this.#note = note;
    this.#add("", "directory").lookups = 1; // the root is never forgotten
    if (saved !== undefined) this.#restore(saved);
  }

  get changes(): number {
    return this.#changes;
  }

  get nextNodeid(): number {
    return this.#nextNodeid;
  }

  get size(): number {
    return this.#byNodeid.size;
  }

  get(nodeid: number): Inode {
    const inode = this.#byNodeid.get(nodeid);
    if (inode === undefined) throw new Failure("stale", `nodeid ${nodeid} is not known`);
    return inode;
  }

  find(nodeid: number): Inode | undefined {
    return this.#byNodeid.get(nodeid);
  }

  current(path: string): Inode | undefined {
    return this.#byPath.get(path);
  }

  /** The kernel is about to be told of it, by the answer to that request. */
  count(inode: Inode, unique?: string): void {
    inode.lookups += 1;
    if (inode.noted) {
      this.#moveToEnd(inode); // a new one is there already
      this.#note({ is: "refs", id: inode.nodeid, refs: inode.lookups, unique });
    } else this.#note(this.#recordOf(inode, unique));
    inode.noted = true;
  }

  /** All that a successor has to know of inodes. */
  *records(): Generator<JournalRecord, void, undefined> {
    for (const inode of this.#byNodeid.values()) if (inode.noted) yield this.#recordOf(inode);
  }

  /** What an inode stands for has changed. */
  noteChange(inode: Inode): void {
    if (inode.noted) this.#note(this.#recordOf(inode));
  }

  #moveToEnd(inode: Inode): void {
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
        this.#moveToEnd(inode);
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
    if (inode.local) {
      this.#setLocal(inode, false);
      this.noteChange(inode);
    }
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
    this.#changes += 1;
    const inode = this.#add(path, kind);
    this.#setLocal(inode, true);
    return inode;
  }

  /** An upload succeeded: the file and all directories above it exist in S3 from now on. */
  markRemote(inode: Inode): void {
    this.#changes += 1;
    this.#setLocal(inode, false);
    this.noteChange(inode);
    for (let path = parentPathOf(inode.path); path !== ""; path = parentPathOf(path)) {
      const parent = this.#byPath.get(path);
      if (parent?.local !== true) continue;
      this.#setLocal(parent, false);
      this.noteChange(parent);
    }
    this.prune(inode);
  }

  /** The path leads elsewhere or nowhere from now on; open files keep their inode. */
  unbind(inode: Inode): void {
    this.#changes += 1;
    if (this.#byPath.get(inode.path) === inode) this.#byPath.delete(inode.path);
    this.#setLocal(inode, false);
    this.prune(inode);
    this.noteChange(inode);
  }

  /**
   * Never below zero, whatever the count says: then the kernel has forgotten it all. False when
   * references are left: then the same message must not be counted twice.
   */
  forget(nodeid: number, count: number): boolean {
    const inode = this.#byNodeid.get(nodeid);
    if (inode === undefined || nodeid === ROOT_NODEID) return true;
    inode.lookups = Math.max(0, inode.lookups - count);
    this.prune(inode);
    if (inode.noted) this.#note({ is: "refs", id: nodeid, refs: inode.lookups });
    return inode.lookups === 0;
  }

  /** Call it whenever one of the reasons to keep an inode has gone. */
  prune(inode: Inode): void {
    if (inode.inUse) return;
    if (inode.noted) this.#note({ is: "gone", id: inode.nodeid });
    inode.noted = false;
    this.#byNodeid.delete(inode.nodeid);
    this.#unused[inode.kind].delete(inode);
    if (this.#byPath.get(inode.path) === inode) this.#byPath.delete(inode.path);
  }

  /** An earlier engine may have died before it did so. To be called when all that was open is. */
  pruneAll(): void {
    for (const inode of this.#byNodeid.values()) this.prune(inode);
  }

  #add(path: string, kind: "file" | "directory"): Inode {
    const inode = new Inode(this.#nextNodeid++, path, kind);
    const former = this.#byPath.get(path);
    this.#byNodeid.set(inode.nodeid, inode);
    this.#unused[kind].add(inode);
    this.#byPath.set(path, inode);
    if (former !== undefined) {
      this.#setLocal(former, false);
      this.noteChange(former);
      this.prune(former);
    }
    return inode;
  }

  /** Plain, without spreading: this is done for every name that the kernel learns of. */
  #recordOf(inode: Inode, unique?: string): InodeRecord {
    const { object } = inode;
    return {
      is: "inode",
      id: inode.nodeid,
      path: inode.path,
      refs: inode.lookups,
      directory: inode.kind === "directory" ? true : undefined,
      local: inode.local ? true : undefined,
      unbound: this.#byPath.get(inode.path) === inode ? undefined : true,
      object: object && {
        etag: object.etag,
        size: object.sizeBytes,
        mtime: object.mtimeMs,
        archived: object.archived ? true : undefined,
      },
      unique,
    };
  }

  #restore({ inodes, nextId }: SavedState): void {
    for (const { id, path, directory, local, unbound, object, refs } of inodes.values()) {
      if (id === ROOT_NODEID) continue;
      const inode = new Inode(id, path, directory === true ? "directory" : "file");
      inode.lookups = refs;
      inode.noted = true;
      if (object !== undefined) {
        const { etag, size: sizeBytes, mtime: mtimeMs, archived = false } = object;
        inode.object = { etag, sizeBytes, mtimeMs, archived };
      }
      this.#byNodeid.set(id, inode);
      this.#unused[inode.kind].add(inode);
      if (unbound !== true) this.#byPath.set(path, inode);
      this.#setLocal(inode, local === true);
    }
    this.#nextNodeid = Math.max(this.#nextNodeid, nextId);
  }

  #setLocal(inode: Inode, local: boolean): void {
    inode.local = local;
    if (local) this.#local.add(inode);
    else this.#local.delete(inode);
  }
}
