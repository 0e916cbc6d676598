import type { ObjectInfo } from "../s3/object-store.ts";
import type { Upload } from "./upload.ts";

/**
 * open(2) is often a LOOKUP and an OPEN of one thread, one right after the other: both need not ask
 * S3. An OPEN that comes later belongs to another open(2).
 */
const CONFIRMED_MS = 1;

/** FUSE names the thread of each request; 0 for one outside of the engine's pid namespace. */
interface Confirmation {
  readonly pid: number;
  readonly atMs: number;
}

/**
 * What a nodeid stands for. The kernel's page cache is per nodeid, so a file's nodeid is bound to
 * one version of one object: another ETag is another inode.
 */
export class Inode {
  readonly nodeid: number;
  readonly path: string;
  readonly kind: "file" | "directory";
  /** How many answers to the kernel named this inode, less those it has forgotten. */
  lookups = 0;
  #readers = 0;
  #unread: PromiseWithResolvers<void> | undefined;
  /** Undefined for directories and for files that are not in S3 yet. */
  object: ObjectInfo | undefined;
  /** Being written, up to the end of the upload. */
  upload: Upload | undefined;
  /** Exists only here: a directory without objects, a file before its upload. */
  local = false;
  /** A directory in which we removed something: see EmptiedDirectories. */
  emptied = false;
  /** Known to the journal, from the first answer that named it: about how much it takes there. */
  notedBytes = 0;
  /** On the clock of performance.now(), which nobody sets: TTLs must not follow the wall clock. */
  validUntilMs = 0;
  /** The kernel's page cache may have its bytes, or a reader is fetching them. */
  wasRead = false;
  #confirmation: Confirmation | undefined;

  constructor(nodeid: number, path: string, kind: "file" | "directory") {
    this.nodeid = nodeid;
    this.path = path;
    this.kind = kind;
  }

  /** Handles that are open for reading. */
  get readers(): number {
    return this.#readers;
  }

  addReader(): void {
    this.#readers += 1;
  }

  removeReader(): void {
    this.#readers -= 1;
    if (this.#readers > 0) return;
    this.#unread?.resolve();
    this.#unread = undefined;
  }

  /** Resolves when the last reader has closed it. */
  get unread(): Promise<void> {
    if (this.#readers === 0) return Promise.resolve();
    this.#unread ??= Promise.withResolvers();
    return this.#unread.promise;
  }

  /** S3 was asked for a LOOKUP of this thread, and has told that this is the current version. */
  confirm(pid: number, atMs: number): void {
    if (pid !== 0) this.#confirmation = { pid, atMs };
  }

  /**
   * Whether S3 was asked since the open(2) of this thread began, by its LOOKUP. Another open must
   * not count on that: S3 may have told of a version that was replaced before that open began.
   */
  takeConfirmation(pid: number): boolean {
    if (this.#confirmation?.pid !== pid) return false;
    const { atMs } = this.#confirmation;
    this.#confirmation = undefined;
    return performance.now() - atMs < CONFIRMED_MS;
  }

  get noted(): boolean {
    return this.notedBytes > 0;
  }

  get sizeBytes(): number {
    return this.upload?.sizeBytes ?? this.object?.sizeBytes ?? 0;
  }

  /** Nobody would lose anything if the kernel forgot it. */
  get isOnlyRemembered(): boolean {
    return this.lookups > 0 && this.readers === 0 && !this.local && this.upload === undefined;
  }

  /** Still needed by the kernel or an open file, or as a name that is nowhere else. */
  get inUse(): boolean {
    const isOnlyHere = this.local || this.emptied || this.upload !== undefined;
    return this.lookups > 0 || this.readers > 0 || isOnlyHere;
  }
}
