import { Failure } from "../base/failure.ts";
import type { DirectoryStream } from "../engine/directory-stream.ts";
import type { Engine } from "../engine/engine.ts";
import type { EngineConfig } from "../engine/engine-config.ts";
import type { Inode } from "../engine/inode.ts";
import type { OpenedAs } from "../engine/open-files.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import type {
  AbsentEntry,
  AttributeChanges,
  Caller,
  DirectoryListing,
  Entry,
  FileSystem,
  FileUser,
  Maybe,
  Opened,
  Outcome,
  WriteRequest,
} from "../fuse/file-system.ts";
import type { Crowding } from "./crowding.ts";
import { errnoOf } from "./errno.ts";
import { RecentAbsences } from "./recent-absences.ts";

export interface FileSystemOptions {
  readonly config: EngineConfig;
  readonly startedMs: number;
  /** The kernel lets everybody in; who is meant is decided here. */
  readonly admits: (uid: number) => boolean;
  readonly crowding: Pick<Crowding, "isFull" | "check" | "room" | "forgotten">;
  /** An upload failed where nobody waits for its result. */
  readonly onLostUpload: (error: unknown) => void;
}

/** Introduces the engine to the FUSE protocol: counts references, gives owners and modes. */
export class EngineFileSystem implements FileSystem {
  readonly #engine: Engine;
  readonly #options: FileSystemOptions;
  readonly #absences = new RecentAbsences();
  #willTellForgotten = false;

  constructor(engine: Engine, options: FileSystemOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  errnoOf(error: unknown): number | undefined {
    return errnoOf(error);
  }

  outcomeOf(unique: string): Outcome | undefined {
    const known = this.#engine.answers.of(unique);
    if (known === undefined) return undefined;
    const { id, handle, errno } = known;
    const inode = id === undefined ? undefined : this.#engine.table.find(id);
    const how = handle === undefined ? undefined : this.#engine.openedAs(handle);
    // Forgotten or closed since: so it was delivered.
    if (id !== undefined && inode === undefined) return undefined;
    if (handle !== undefined && how === undefined) return undefined;
    return {
      errno,
      entry: inode && this.#entryOf(inode),
      opened: handle === undefined || how === undefined ? undefined : openedOf(handle, how),
    };
  }

  answered(unique: string): void {
    this.#engine.answers.forget(unique);
  }

  lookup(caller: Caller, parent: number, name: string): Maybe<Entry | AbsentEntry> {
    this.#admit(caller);
    const found = this.#engine.lookup(parent, name, caller.pid);
    const answerOf = (inode: Inode | undefined): Maybe<Entry | AbsentEntry> => {
      if (inode === undefined) this.#absences.add(parent, name);
      else if (!inode.noted && !this.#engine.hasRoom) {
        return this.#room(parent).then(() => this.lookup(caller, parent, name));
      }
      return this.#entered(inode, caller.unique);
    };
    return found instanceof Promise ? found.then(answerOf) : answerOf(found);
  }

  forget(nodeid: number, count: number): boolean {
    const isGone = this.#engine.table.forget(nodeid, count);
    this.#tellForgotten();
    return isGone;
  }

  done(unique: string): void {
    this.#engine.answers.done(unique);
  }

  getAttributes(caller: Caller, nodeid: number): Entry {
    this.#admit(caller);
    return this.#entryOf(this.#engine.table.get(nodeid));
  }

  setAttributes(caller: Caller, nodeid: number, changes: AttributeChanges): Entry {
    this.#admit(caller);
    return this.#entryOf(this.#engine.setAttributes(nodeid, changes.sizeBytes));
  }

  async makeFile(caller: Caller, parent: number, name: string): Promise<Entry> {
    this.#admit(caller);
    await this.#room(parent);
    const inode = await this.#once(caller, this.#engine.makeFile(parent, name));
    return this.#countNew(inode, caller.unique);
  }

  async makeDirectory(caller: Caller, parent: number, name: string): Promise<Entry> {
    this.#admit(caller);
    await this.#room(parent);
    const inode = await this.#once(caller, this.#engine.makeDirectory(parent, name));
    return this.#countNew(inode, caller.unique);
  }

  unmake(nodeid: number): void {
    this.#engine.unmake(nodeid);
  }

  unlink(caller: Caller, parent: number, name: string, leaving: AbortSignal): Promise<void> {
    this.#admit(caller);
    return this.#once(caller, this.#engine.unlink(parent, name, caller.unique, leaving));
  }

  removeDirectory(
    caller: Caller,
    parent: number,
    name: string,
    leaving: AbortSignal,
  ): Promise<void> {
    this.#admit(caller);
    return this.#once(caller, this.#engine.removeDirectory(parent, name, caller.unique, leaving));
  }

  rename(parent: number, name: string): Promise<void> {
    return this.#engine.rename(parent, name);
  }

  async create(caller: Caller, parent: number, name: string, flags: number) {
    this.#admit(caller);
    await this.#room(parent);
    const absent = this.#absences.take(parent, name);
    const made = this.#engine.create(parent, name, flags, caller.pid, absent);
    const { inode, handle } = await this.#once(caller, made);
    if (!this.#engine.hasRoom) this.#engine.abandon(handle); // nobody will know of it
    this.#checkRoom();
    this.#acknowledge(handle, caller.unique);
    try {
      return { entry: this.#count(inode, caller.unique), opened: openedOf(handle, "write") };
    } catch (error) {
      this.#engine.abandon(handle);
      throw error;
    }
  }

  async open(
    caller: Caller,
    nodeid: number,
    flags: number,
    leaving?: AbortSignal,
  ): Promise<Opened> {
    this.#admit(caller);
    const opening = this.#engine.open(nodeid, flags, caller.pid, leaving);
    const opened = await this.#once(caller, opening);
    this.#acknowledge(opened.handle, caller.unique);
    return openedOf(opened.handle, opened.how);
  }

  read(handle: number, offsetBytes: number, sizeBytes: number) {
    return this.#engine.read(handle, offsetBytes, sizeBytes);
  }

  write(request: WriteRequest): Maybe<number> {
    return this.#engine.write(request);
  }

  flush(user: FileUser, handle: number): Promise<void> {
    return this.#engine.flush(handle, user);
  }

  sync(handle: number): Promise<void> {
    return this.#engine.sync(handle);
  }

  /** RELEASE has no caller that could be told: the log tells of an upload that fails now. */
  release(handle: number): void {
    void this.#engine.release(handle).catch(this.#options.onLostUpload);
  }

  abandon(handle: number): void {
    this.#engine.abandon(handle);
  }

  openDirectory(caller: Caller, nodeid: number): number {
    this.#admit(caller);
    const handle = this.#engine.openDirectory(nodeid);
    this.#acknowledge(handle, caller.unique);
    return handle;
  }

  async listDirectory(handle: number, index: number, anew: boolean): Promise<DirectoryListing> {
    return this.#listingOf(await this.#engine.listDirectory(handle, index, anew));
  }

  releaseDirectory(handle: number): void {
    this.#engine.releaseDirectory(handle);
  }

  /**
   * What has failed and was answered may come again, when its slot was not released in time. By
   * then it could succeed, and an unlink would delete what was put there after it.
   */
  async #once<T>({ unique }: Caller, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      const errno = errnoOf(error);
      if (errno !== undefined) this.#engine.answers.done(unique, errno);
      throw error;
    }
  }

  /** A handle that can't be noted is closed: the opener gets an error, and nobody else would. */
  #acknowledge(handle: number, unique: string): void {
    try {
      this.#engine.acknowledge(handle, unique);
    } catch (error) {
      this.#engine.abandon(handle);
      throw error;
    }
  }

  /** A name that the kernel can't be told of does not stay. */
  #countNew(inode: Inode, unique: string): Entry {
    try {
      return this.#count(inode, unique);
    } catch (error) {
      this.#engine.unmake(inode.nodeid);
      throw error;
    }
  }

  /** Later, since it may commit the journal: a BATCH_FORGET is noted as a whole or not at all. */
  #tellForgotten(): void {
    if (this.#willTellForgotten) return;
    this.#willTellForgotten = true;
    setImmediate(() => {
      this.#willTellForgotten = false;
      this.#options.crowding.forgotten();
    });
  }

  #admit({ uid }: Caller): void {
    if (!this.#options.admits(uid)) throw new Failure("denied", `uid ${uid} is not let in`);
  }

  #entered(inode: Inode | undefined, unique: string): Entry | AbsentEntry {
    if (inode !== undefined) return this.#count(inode, unique);
    const { negativeTtlMs } = this.#options.config;
    if (negativeTtlMs === 0) throw new Failure("absent", "no such name");
    return { attributes: undefined, validMs: negativeTtlMs };
  }

  /** `unique`: the request, when the answer names nothing else. */
  #count(inode: Inode, unique?: string): Entry {
    if (!inode.noted) this.#checkRoom();
    this.#engine.table.count(inode, unique);
    if (unique !== undefined) this.#engine.answers.remember(unique, { id: inode.nodeid });
    this.#options.crowding.check();
    return this.#entryOf(inode);
  }

  /** What can't be noted can't be told: it would not survive. Some names are let go meanwhile. */
  #checkRoom(): void {
    if (this.#engine.hasRoom) return;
    this.#options.crowding.check();
    throw new PosixFailure("ENOMEM", "no room for more names: see --inode-limit");
  }

  /** Until a name in that directory can be noted. */
  async #room(parent: number): Promise<void> {
    if (!this.#engine.hasRoom) await this.#options.crowding.room(parent);
  }

  #listingOf(stream: DirectoryStream): DirectoryListing {
    return {
      item(index) {
        const item = stream.item(index);
        return item && { name: item.name, kind: item.kind, nodeid: 0 };
      },
      load: (index) => stream.loadOn(index),
      enter: (index) => {
        const item = stream.item(index);
        if (item === undefined) return "gone";
        // An object without an ETag can't be pinned: the LOOKUP that follows says so.
        if (this.#options.crowding.isFull || item.object?.etag === "") return "unknown";
        const inode = stream.enter(item, this.#engine.table);
        return typeof inode === "string" ? inode : this.#count(inode);
      },
    };
  }

  #entryOf(inode: Inode): Entry {
    const { config, startedMs } = this.#options;
    const directory = inode.kind === "directory";
    return {
      attributes: {
        nodeid: inode.nodeid,
        kind: inode.kind,
        sizeBytes: directory ? 0 : inode.sizeBytes,
        mtimeMs: inode.object?.mtimeMs ?? startedMs,
        mode: directory ? config.directoryMode : config.fileMode,
        uid: config.uid,
        gid: config.gid,
      },
      validMs: this.#validityOf(inode),
    };
  }

  /** What is only here can vanish at any time: the kernel shall ask, and asking is cheap. */
  #validityOf(inode: Inode): number {
    if (inode.path === "") return this.#options.config.metadataTtlMs;
    if (inode.local || inode.emptied || inode.upload !== undefined) return 0;
    return Math.max(0, inode.validUntilMs - performance.now());
  }
}

/**
 * Pages stay cached because a nodeid is one version. What is opened for writing bypasses them: then
 * the kernel refuses a shared mmap(2), of which a file on S3 would never learn.
 */
function openedOf(handle: number, how: OpenedAs): Opened {
  return {
    handle,
    keepCache: how === "read" || how === "read without cache",
    directIo: how === "write" || how === "read without cache",
    needsFlush: how === "write",
  };
}
