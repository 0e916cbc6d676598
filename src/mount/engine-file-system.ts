import { Failure } from "../base/failure.ts";
import type { DirectoryStream } from "../engine/directory-stream.ts";
import type { Engine } from "../engine/engine.ts";
import type { EngineConfig } from "../engine/engine-config.ts";
import type { Inode } from "../engine/inode.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import type {
  AbsentEntry,
  AttributeChanges,
  Caller,
  DirectoryListing,
  Entry,
  FileSystem,
  Maybe,
  Opened,
  Outcome,
} from "../fuse/file-system.ts";
import type { Crowding } from "./crowding.ts";
import { errnoOf } from "./errno.ts";
import { RecentAbsences } from "./recent-absences.ts";

export interface FileSystemOptions {
  readonly config: EngineConfig;
  readonly startedMs: number;
  /** The kernel lets everybody in; who is meant is decided here. */
  readonly admits: (uid: number) => boolean;
  readonly crowding: Pick<Crowding, "isFull" | "check">;
  /** An upload failed where nobody waits for its result. */
  readonly onLostUpload: (error: unknown) => void;
}

/** Introduces the engine to the FUSE protocol: counts references, gives owners and modes. */
export class EngineFileSystem implements FileSystem {
  readonly #engine: Engine;
  readonly #options: FileSystemOptions;
  readonly #absences = new RecentAbsences();

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
    const found = this.#engine.lookup(parent, name);
    const answerOf = (inode: Inode | undefined) => {
      if (inode === undefined) this.#absences.add(parent, name);
      return this.#entered(inode, caller.unique);
    };
    return found instanceof Promise ? found.then(answerOf) : answerOf(found);
  }

  forget(nodeid: number, count: number): boolean {
    return this.#engine.table.forget(nodeid, count);
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
    this.#checkRoom();
    const inode = await this.#once(caller, this.#engine.makeFile(parent, name));
    return this.#count(inode, caller.unique);
  }

  async makeDirectory(caller: Caller, parent: number, name: string): Promise<Entry> {
    this.#admit(caller);
    this.#checkRoom();
    const inode = await this.#once(caller, this.#engine.makeDirectory(parent, name));
    return this.#count(inode, caller.unique);
  }

  unlink(caller: Caller, parent: number, name: string): Promise<void> {
    this.#admit(caller);
    return this.#once(caller, this.#engine.unlink(parent, name, caller.unique));
  }

  removeDirectory(caller: Caller, parent: number, name: string): Promise<void> {
    this.#admit(caller);
    return this.#once(caller, this.#engine.removeDirectory(parent, name, caller.unique));
  }

  rename(parent: number, name: string): Promise<void> {
    return this.#engine.rename(parent, name);
  }

  async create(caller: Caller, parent: number, name: string, flags: number) {
    this.#admit(caller);
    this.#checkRoom();
    const absent = this.#absences.take(parent, name);
    const made = this.#engine.create(parent, name, flags, caller.pid, absent);
    const { inode, handle } = await this.#once(caller, made);
    this.#engine.acknowledge(handle, caller.unique);
    return { entry: this.#count(inode, caller.unique), opened: openedOf(handle, "write") };
  }

  async open(caller: Caller, nodeid: number, flags: number): Promise<Opened> {
    this.#admit(caller);
    const opened = await this.#once(caller, this.#engine.open(nodeid, flags, caller.pid));
    this.#engine.acknowledge(opened.handle, caller.unique);
    return openedOf(opened.handle, opened.writes ? "write" : "read");
  }

  read(handle: number, offsetBytes: number, sizeBytes: number) {
    return this.#engine.read(handle, offsetBytes, sizeBytes);
  }

  write(...request: Parameters<FileSystem["write"]>): Maybe<number> {
    return this.#engine.write(...request);
  }

  flush(caller: Caller, handle: number): Promise<void> {
    return this.#engine.flush(handle, caller.pid);
  }

  sync(handle: number): Promise<void> {
    return this.#engine.sync(handle);
  }

  /** RELEASE has no caller who could be told: what fails here is told to the log. */
  async release(handle: number): Promise<void> {
    await this.#engine.release(handle).catch(this.#options.onLostUpload);
  }

  abandon(handle: number): void {
    this.#engine.abandon(handle);
  }

  openDirectory(caller: Caller, nodeid: number): number {
    this.#admit(caller);
    const handle = this.#engine.openDirectory(nodeid);
    this.#engine.acknowledge(handle, caller.unique);
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

  #listingOf(stream: DirectoryStream): DirectoryListing {
    return {
      item(index) {
        const item = stream.item(index);
        return item && { name: item.name, kind: item.kind, nodeid: 0 };
      },
      enter: (index) => {
        const item = stream.item(index);
        if (item === undefined) return "gone";
        if (this.#options.crowding.isFull) return "unknown";
        const inode = stream.enter(item, this.#engine.table);
        return inode === undefined ? "gone" : this.#count(inode);
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
    if (inode.local || inode.upload !== undefined) return 0;
    return Math.max(0, inode.validUntilMs - Date.now());
  }
}

/** Pages stay cached because a nodeid is one version; writers bypass the cache. */
function openedOf(handle: number, how: "read" | "write" | "list"): Opened {
  const writes = how === "write";
  return { handle, keepCache: how === "read", directIo: writes, needsFlush: writes };
}
