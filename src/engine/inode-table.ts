import { Failure } from "../base/failure.ts";
import type { InodeRecord, JournalRecord } from "../journal/record.ts";
import type { SavedState } from "../journal/saved-state.ts";
import type { ObjectInfo } from "../s3/object-store.ts";
import { EmptiedDirectories } from "./emptied-directories.ts";
import { parentPathOf } from "./file-name.ts";
import { Inode } from "./inode.ts";
import { inodeRecordOf, recordBytesOf } from "./inode-record.ts";
import { OwnChanges } from "./own-changes.ts";

export const ROOT_NODEID = 1;
const OLDEST_TRIES_MAX = 100;

/** `isChange`: the record is about an inode that the journal knows already. */
type NoteInode = (record: JournalRecord, isChange?: boolean) => void;

/**
 * Nodeids and paths. A path has one current inode; older versions of it live on by nodeid alone,
 * for as long as the kernel remembers them. A nodeid is never used twice.
 */
export class InodeTable {
  readonly #byNodeid = new Map<number, Inode>();
  readonly #byPath = new Map<string, Inode>();
  readonly #local = new Set<Inode>();
  /** How many local names are below each directory, however deep. */
  readonly #localBelow = new Map<string, number>();
  readonly #emptied = new EmptiedDirectories((inode) => {
    this.prune(inode);
    this.noteChange(inode);
  });
  /** The longest unused first. */
  readonly #unused = { file: new Set<Inode>(), directory: new Set<Inode>() };
  readonly #note: NoteInode;
  /** Names that this mount has made, removed or uploaded. */
  readonly own = new OwnChanges();
  #nextNodeid = ROOT_NODEID;
  #notedBytes = 0;

  /** `note`: what has to outlive this process. */
  constructor(note: NoteInode, saved?: SavedState) {
    this.#note = note;
    this.#add("", "directory").lookups = 1; // the root is never forgotten
    if (saved !== undefined) this.#restore(saved);
  }

  get changes(): number {
    return this.own.count;
  }

  get nextNodeid(): number {
    return this.#nextNodeid;
  }

  get size(): number {
    return this.#byNodeid.size;
  }

  /** About how much all inodes take in a journal without what has changed or gone since. */
  get notedBytes(): number {
    return this.#notedBytes;
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
      return;
    }
    try {
      this.#note(this.#recordOf(inode, unique));
      this.#setNoted(inode, recordBytesOf(inode));
    } catch (error) {
      inode.lookups -= 1; // the journal is full: the kernel is not told
      throw error;
    }
  }

  /** All that a successor has to know of inodes. */
  *records(): Generator<JournalRecord, void, undefined> {
    for (const inode of this.#byNodeid.values()) if (inode.noted) yield this.#recordOf(inode);
  }

  /** What an inode stands for has changed. */
  noteChange(inode: Inode): void {
    if (inode.noted) this.#note(this.#recordOf(inode), true);
  }

  #moveToEnd(inode: Inode): void {
    this.#unused[inode.kind].delete(inode);
    this.#unused[inode.kind].add(inode);
  }

  /**
   * What the kernel remembers and was not asked about for longest, with its parent; a directory
   * only when there is no such file, since it may be where somebody works. It counts as used.
   * `isLocked`: names in such a directory can't be forgotten now.
   */
  takeOldest(
    isLocked: (nodeid: number) => boolean = () => false,
  ): { readonly parent: Inode; readonly inode: Inode } | undefined {
    for (const kind of ["file", "directory"] as const) {
      let tries = OLDEST_TRIES_MAX;
      for (const inode of this.#unused[kind]) {
        if (tries-- === 0) break;
        this.#moveToEnd(inode);
        const parent = this.#byPath.get(parentPathOf(inode.path));
        const isCurrent = this.#byPath.get(inode.path) === inode && inode.path !== "";
        if (parent === undefined || isLocked(parent.nodeid)) continue;
        if (isCurrent && inode.isOnlyRemembered) return { parent, inode };
      }
    }
    return undefined;
  }

  /** Files and directories of a directory that S3 does not know yet. */
  localChildren(parentPath: string): Inode[] {
    return [...this.#local].filter((inode) => parentPathOf(inode.path) === parentPath);
  }

  /** Whether anything below a directory, however deep, is not in S3 yet. */
  hasLocalBelow(path: string): boolean {
    return this.#localBelow.has(path);
  }

  /**
   * Binds what S3 has there now: the known inode if it is the same thing, else a new one. `since`
   * is the count of own changes when S3 was asked: keys removed after that may be all it had.
   */
  bindDirectory(path: string, since: number): Inode {
    const known = this.#byPath.get(path);
    const inode = known?.kind === "directory" ? known : this.#add(path, "directory");
    this.#setInS3(inode, since);
    return inode;
  }

  #setInS3(inode: Inode, since: number): void {
    const staysEmptied = inode.emptied && this.own.below(inode.path, since);
    if (!inode.local && (!inode.emptied || staysEmptied)) return;
    this.#setLocal(inode, false);
    if (!staysEmptied) this.#emptied.delete(inode);
    this.noteChange(inode);
  }

  /** S3 has no key below the directory, but there are local names in it. */
  bindLocalDirectory(path: string): Inode {
    const known = this.#byPath.get(path);
    const inode = known?.kind === "directory" ? known : this.#add(path, "directory");
    this.#emptied.delete(inode);
    this.#setLocal(inode, true);
    this.noteChange(inode);
    return inode;
  }

  /** Directories above a name that is being removed have to be found although they are empty. */
  markEmptied(path: string): void {
    for (let above = parentPathOf(path); above !== ""; above = parentPathOf(above)) {
      const inode = this.#byPath.get(above);
      if (inode?.kind !== "directory" || inode.local) continue;
      const isNew = !inode.emptied;
      this.#emptied.add(inode);
      if (isNew) this.noteChange(inode);
    }
  }

  /** Whether a directory without any key in S3 is still found by its name. */
  isEmptied(inode: Inode): boolean {
    return this.#emptied.isKept(inode);
  }

  bindFile(path: string, object: ObjectInfo): Inode {
    const known = this.#byPath.get(path);
    const same = known?.kind === "file" && known.object?.etag === object.etag;
    const inode = same ? known : this.#add(path, "file");
    inode.object = object;
    return inode;
  }

  addLocal(path: string, kind: "file" | "directory"): Inode {
    this.own.increase();
    const inode = this.#add(path, kind);
    this.#setLocal(inode, true);
    return inode;
  }

  /** An upload succeeded: the file and all directories above it exist in S3 from now on. */
  markRemote(inode: Inode): void {
    this.own.add(inode.path, "uploaded");
    this.#setLocal(inode, false);
    this.noteChange(inode);
    for (let path = parentPathOf(inode.path); path !== ""; path = parentPathOf(path)) {
      const parent = this.#byPath.get(path);
      if (parent?.kind === "directory") this.#setInS3(parent, this.own.count);
    }
    this.prune(inode);
  }

  /** The path leads elsewhere or nowhere from now on; open files keep their inode. */
  unbind(inode: Inode): void {
    this.own.increase();
    if (this.#byPath.get(inode.path) === inode) this.#byPath.delete(inode.path);
    this.#clear(inode);
    this.prune(inode);
    this.noteChange(inode);
  }

  /** We have removed the name: answers of S3 that are older must not bring it back. */
  remove(path: string): void {
    const known = this.#byPath.get(path);
    this.markEmptied(path);
    this.own.add(path, "removed");
    if (known?.kind === "directory") this.#emptied.endBelow(path);
    if (known !== undefined) this.unbind(known);
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
    this.#setNoted(inode, 0);
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
      this.#clear(former);
      this.noteChange(former);
      this.prune(former);
    }
    return inode;
  }

  #recordOf(inode: Inode, unique?: string): InodeRecord {
    return inodeRecordOf(inode, this.#byPath.get(inode.path) === inode, unique);
  }

  #setNoted(inode: Inode, bytes: number): void {
    this.#notedBytes += bytes - inode.notedBytes;
    inode.notedBytes = bytes;
  }

  #restore({ inodes, nextId }: SavedState): void {
    for (const saved of inodes.values()) {
      const { id, path, directory, local, emptied, unbound, object, refs } = saved;
      if (id === ROOT_NODEID) continue;
      const inode = new Inode(id, path, directory === true ? "directory" : "file");
      inode.lookups = refs;
      this.#setNoted(inode, recordBytesOf(inode));
      if (object !== undefined) {
        const { etag, size: sizeBytes, mtime: mtimeMs, archived = false } = object;
        inode.object = { etag, sizeBytes, mtimeMs, archived };
      }
      this.#byNodeid.set(id, inode);
      this.#unused[inode.kind].add(inode);
      if (unbound !== true) this.#byPath.set(path, inode);
      this.#setLocal(inode, local === true);
      if (emptied === true && unbound !== true) this.#emptied.add(inode);
      inodes.delete(id); // a large table would else be in memory twice
    }
    this.#nextNodeid = Math.max(this.#nextNodeid, nextId);
  }

  /** Nothing but references of the kernel and open files keeps it from now on. */
  #clear(inode: Inode): void {
    this.#setLocal(inode, false);
    this.#emptied.delete(inode);
  }

  #setLocal(inode: Inode, local: boolean): void {
    if (inode.local === local) return;
    inode.local = local;
    if (local) this.#local.add(inode);
    else this.#local.delete(inode);
    for (let path = parentPathOf(inode.path); path !== ""; path = parentPathOf(path)) {
      const count = (this.#localBelow.get(path) ?? 0) + (local ? 1 : -1);
      if (count > 0) this.#localBelow.set(path, count);
      else this.#localBelow.delete(path);
    }
  }
}
