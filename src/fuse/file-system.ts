/** Who asks. `pid` is 0 when the caller lives outside of our pid namespace. */
export interface Caller {
  readonly uid: number;
  readonly gid: number;
  readonly pid: number;
  /** Names the request, the same whenever it is sent. */
  readonly unique: string;
}

/** The process behind a WRITE or FLUSH. */
export interface FileUser {
  readonly pid: number;
  /** FUSE's lock_owner: one for all threads of a process, another one for a forked child. */
  readonly owner: string;
}

export interface WriteRequest {
  readonly handle: number;
  readonly offsetBytes: number;
  readonly data: Uint8Array;
  /** Absent where the kernel does not name the owner. */
  readonly user?: FileUser;
  /** Names the request, the same whenever it is sent. */
  readonly unique: string;
  /** The request was handed out before, to this process or to an earlier one. */
  readonly again: boolean;
  readonly leaving: AbortSignal;
}

export interface Attributes {
  readonly nodeid: number;
  readonly kind: "file" | "directory";
  readonly sizeBytes: number;
  readonly mtimeMs: number;
  /** Permission bits only. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

export interface Entry {
  readonly attributes: Attributes;
  readonly validMs: number;
}

/** A name known not to exist: worth remembering for a while. */
export interface AbsentEntry {
  readonly attributes: undefined;
  readonly validMs: number;
}

export interface Opened {
  readonly handle: number;
  readonly keepCache: boolean;
  readonly directIo: boolean;
  /** A reader has nothing to flush: its exit must not wait for an engine that is away. */
  readonly needsFlush: boolean;
}

/** Memory of the file system's own, lent until the reply is written. */
export interface LentBytes {
  readonly chunks: readonly Uint8Array[];
  release(): void;
}

export interface AttributeChanges {
  readonly mode: number | undefined;
  readonly uid: number | undefined;
  readonly gid: number | undefined;
  readonly sizeBytes: number | undefined;
  readonly changesTimes: boolean;
  readonly handle: number | undefined;
}

export interface DirectoryItem {
  readonly name: string;
  readonly kind: "file" | "directory";
  /** 0 when no nodeid was given out yet. */
  readonly nodeid: number;
}

/** A piece of a directory, from the position that was asked for. */
export interface DirectoryListing {
  /** Undefined behind the last one that is at hand; the first one is, unless the end is reached. */
  item(index: number): DirectoryItem | undefined;
  /** Until that item is at hand, too, or the end is reached. */
  load(index: number): Promise<void>;
  /**
   * Looks an item up: each entry counts as one reference that a FORGET gives back. `gone` when it
   * has vanished meanwhile; `unknown` when the kernel shall ask for it if it wants to know.
   */
  enter(index: number): Entry | "gone" | "unknown";
}

/** What a request was answered before: its entry, its handle, an error, or that it was done. */
export interface Outcome {
  readonly errno: number | undefined;
  readonly entry: Entry | undefined;
  readonly opened: Opened | undefined;
}

export type Maybe<T> = T | Promise<T>;

/**
 * What the protocol serves. Declared here by its user; the two are introduced in src/mount.
 * Errors are thrown; `errnoOf` gives their number, undefined for what is a bug.
 */
export interface FileSystem {
  errnoOf(error: unknown): number | undefined;
  /** For a request that comes again: undefined when nothing was done for it yet. */
  outcomeOf(unique: string): Outcome | undefined;
  /** The kernel has the answer, or does not want it: it will not ask for it again. */
  answered(unique: string): void;
  lookup(caller: Caller, parent: number, name: string): Maybe<Entry | AbsentEntry>;
  /** False when references are left, so that it must not be counted again. */
  forget(nodeid: number, count: number): boolean;
  /** The request was served, and its answer says no more than that. */
  done(unique: string): void;
  getAttributes(caller: Caller, nodeid: number): Maybe<Entry>;
  setAttributes(caller: Caller, nodeid: number, changes: AttributeChanges): Maybe<Entry>;
  makeFile(caller: Caller, parent: number, name: string, mode: number): Maybe<Entry>;
  makeDirectory(caller: Caller, parent: number, name: string): Maybe<Entry>;
  /** The kernel never learned of a file or directory made just now: as if it had not been made. */
  unmake(nodeid: number): void;
  /** When the caller is leaving, nothing may be begun any more: others go on with the name. */
  unlink(caller: Caller, parent: number, name: string, leaving: AbortSignal): Maybe<void>;
  removeDirectory(caller: Caller, parent: number, name: string, leaving: AbortSignal): Maybe<void>;
  rename(parent: number, name: string, newParent: number, newName: string): Maybe<void>;
  create(
    caller: Caller,
    parent: number,
    name: string,
    flags: number,
  ): Maybe<{ entry: Entry; opened: Opened }>;
  /** When the caller is leaving, the file need not be opened any more. */
  open(caller: Caller, nodeid: number, flags: number, leaving: AbortSignal): Maybe<Opened>;
  read(handle: number, offsetBytes: number, sizeBytes: number): Maybe<LentBytes>;
  /**
   * The data is lent to the file system until the promise settles: when the caller is leaving, that
   * shall be soon, with as many bytes as were taken.
   */
  write(request: WriteRequest): Maybe<number>;
  flush(user: FileUser, handle: number): Maybe<void>;
  sync(handle: number): Maybe<void>;
  /**
   * The last descriptor is closed. Returns at once and ends an upload behind the answer: the kernel
   * has few places for requests that no program waits for, and reads ahead need them, too.
   */
  release(handle: number): void;
  /** The kernel never learned of this handle: as if the file had not been opened. */
  abandon(handle: number): void;
  openDirectory(caller: Caller, nodeid: number): Maybe<number>;
  /** `anew` at offset 0: that is what rewinddir(3) asks for. */
  listDirectory(handle: number, index: number, anew: boolean): Maybe<DirectoryListing>;
  releaseDirectory(handle: number): void;
}
