import { Failure } from "../base/failure.ts";
import type { Journal } from "../journal/journal.ts";
import type { JournalRecord } from "../journal/record.ts";
import type { SavedState } from "../journal/saved-state.ts";
import type { Spool } from "../journal/spool.ts";
import type { ObjectReader, ObjectStore } from "../s3/object-store.ts";
import { Answers } from "./answers.ts";
import { BufferPool } from "./buffer-pool.ts";
import type { DirectoryStream } from "./directory-stream.ts";
import { DiscardedUploads } from "./discarded-uploads.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import { InodeTable } from "./inode-table.ts";
import { Namespace } from "./namespace.ts";
import { OpenFiles } from "./open-files.ts";
import type { Reader } from "./open-files.ts";
import { Removal } from "./removal.ts";
import { openFileRecords, openRecordOf, restoreOpenFiles } from "./resume.ts";
import { parseOpenFlags } from "./open-flags.ts";
import type { OpenFlags } from "./open-flags.ts";
import { NO_PAGE_CACHE } from "./page-cache.ts";
import { PosixFailure } from "./posix-failure.ts";
import { ReadStream } from "./read-stream.ts";
import type { Lent } from "./read-stream.ts";
import { ReadingHabits } from "./reading-habits.ts";
import type { Surroundings } from "./surroundings.ts";
import { WalkAhead } from "./walk-ahead.ts";
import { settled, Writing } from "./writing.ts";

export interface OpenedFile {
  readonly handle: number;
  readonly writes: boolean;
}

/** What outlives the process, and what was found in it. */
export interface EngineMemory {
  readonly journal: Pick<Journal, "note" | "commit" | "hasRoom">;
  readonly spool: Spool;
  readonly saved: SavedState | undefined;
}

/** A bucket as a file system, with no kernel in sight: what each operation means on S3. */
export class Engine {
  readonly table: InodeTable;
  readonly answers: Answers;
  readonly #config: EngineConfig;
  readonly #reader: ObjectReader;
  readonly #memory: EngineMemory;
  readonly #names: Namespace;
  readonly #files: OpenFiles;
  readonly #removal: Removal;
  readonly #writing: Writing;
  readonly #walk: WalkAhead;
  readonly #discarded: DiscardedUploads;
  readonly #pool: BufferPool;
  readonly #habits = new ReadingHabits();

  constructor(
    store: ObjectStore,
    config: EngineConfig,
    memory: EngineMemory,
    { reader = store, pages = NO_PAGE_CACHE, allocate }: Surroundings = {},
  ) {
    const { journal, saved } = memory;
    this.#reader = reader;
    this.#config = config;
    this.#memory = memory;
    this.table = new InodeTable((record) => journal.note(record), saved);
    this.answers = new Answers(journal, saved);
    this.#names = new Namespace(store, this.table, config);
    this.#files = new OpenFiles(saved?.nextHandle);
    this.#pool = new BufferPool(config.memoryBytes, { allocate });
    this.#discarded = new DiscardedUploads(store, journal);
    const { table, answers } = this;
    const [names, files] = [this.#names, this.#files];
    this.#removal = new Removal({ store, table, names, answers, config });
    const discard = (key: string, uploadId: string) => this.#discarded.discard(key, uploadId);
    const partSizeBytes = config.writePartSizeBytes;
    const uploads = { store, journal, spool: memory.spool, discard, partSizeBytes };
    this.#walk = new WalkAhead(table, names, config.metadataTtlMs);
    this.#writing = new Writing({ table, names, files, config, pages, uploads });
    if (saved !== undefined) this.#restore(saved);
  }

  /** All that a successor has to know, in the order in which it can be understood. */
  *records(): Generator<JournalRecord, void, undefined> {
    yield { is: "next", id: this.table.nextNodeid, handle: this.#files.next };
    yield* this.table.records();
    yield* openFileRecords(this.#files);
    yield* this.#discarded.records;
    yield* this.answers.records;
  }

  /** The opener is about to be told: from now on the handle has to survive. */
  acknowledge(handle: number, unique: string): void {
    const file = this.#files.find(handle);
    if (file === undefined) return;
    this.#files.acknowledge(handle);
    this.#memory.journal.note({ ...openRecordOf(handle, file), unique });
    this.answers.remember(unique, { handle });
  }

  /** Whether the kernel may be told of more names. */
  get hasRoom(): boolean {
    return this.#memory.journal.hasRoom;
  }

  /** How a handle was opened; undefined when it is not open. */
  openedAs(handle: number): "read" | "write" | "list" | undefined {
    return this.#files.find(handle)?.do;
  }

  /** Does not count as a reference: the edge that tells the kernel does the counting. */
  lookup(parent: number, name: string): Inode | undefined | Promise<Inode | undefined> {
    return this.#names.lookup(this.#names.resolve(parent, name));
  }

  async makeFile(parent: number, name: string): Promise<Inode> {
    return this.#makeLocal(parent, name, "file");
  }

  /** S3 has no directories: it is ours alone until a file in it is uploaded. */
  async makeDirectory(parent: number, name: string): Promise<Inode> {
    return this.#makeLocal(parent, name, "directory");
  }

  /** `knownAbsent`: S3 was asked for the name just now, and had nothing. */
  async create(parent: number, name: string, flags: number, pid: number, knownAbsent = false) {
    const parsed = parseOpenFlags(flags);
    const inode = await this.#makeLocal(parent, name, "file", knownAbsent);
    return { inode, handle: this.#writing.open(inode, parsed, pid) };
  }

  async open(nodeid: number, flags: number, pid: number): Promise<OpenedFile> {
    const inode = this.table.get(nodeid);
    const parsed = parseOpenFlags(flags);
    if (inode.kind === "directory") throw new PosixFailure("EISDIR", inode.path);
    await settled(inode);
    if (!this.#wantsWriter(inode, parsed)) return this.#openReader(inode, parsed);
    this.#checkWritable();
    return { handle: this.#writing.open(inode, parsed, pid), writes: true };
  }

  read(handle: number, offsetBytes: number, sizeBytes: number): Promise<Lent> {
    return this.#files.reader(handle).stream.read(offsetBytes, sizeBytes);
  }

  write(...request: Parameters<Writing["write"]>) {
    return this.#writing.write(...request);
  }

  flush(handle: number, pid: number): Promise<void> {
    return this.#writing.flush(handle, pid);
  }

  sync(handle: number): Promise<void> {
    return this.#writing.sync(handle);
  }

  async release(handle: number): Promise<void> {
    const file = this.#files.find(handle);
    try {
      if (file?.do === "write") await this.#writing.complete(file);
    } finally {
      this.#forgetHandle(handle);
      if (file?.do === "read") this.#closeReader(file);
      if (file?.do === "write") file.upload.close();
    }
  }

  /** The opener never got its handle: a file that it would have replaced stays as it is. */
  abandon(handle: number): void {
    const file = this.#files.find(handle);
    this.#forgetHandle(handle);
    if (file?.do === "read") this.#closeReader(file);
    if (file?.do !== "write") return;
    void file.upload.abort(new PosixFailure("EIO", "opened by nobody"));
    file.inode.upload = undefined;
    if (file.inode.local) this.table.unbind(file.inode);
    else this.table.prune(file.inode);
  }

  openDirectory(nodeid: number): number {
    const inode = this.table.get(nodeid);
    if (inode.kind !== "directory") throw new PosixFailure("ENOTDIR", inode.path);
    return this.#files.add({ do: "list", inode, stream: undefined });
  }

  /** The directory with that item loaded, if it has so many. What was passed is read anew. */
  async listDirectory(handle: number, index: number, anew: boolean): Promise<DirectoryStream> {
    const directory = this.#files.directory(handle);
    if (anew || directory.stream?.reaches(index) !== true) {
      const { place } = directory;
      const goesOn = !anew && place !== undefined && index >= place.index;
      directory.stream = goesOn
        ? this.#names.list(directory.inode, place)
        : this.#walk.open(directory.inode);
    }
    const { stream } = directory;
    await stream.load(index);
    directory.place = stream.place;
    if (index > 0) this.#memory.journal.note({ is: "place", handle, ...stream.place });
    return stream;
  }

  releaseDirectory(handle: number): void {
    if (this.#files.find(handle)?.do === "list") this.#forgetHandle(handle);
  }

  async unlink(parent: number, name: string, unique: string): Promise<void> {
    this.#checkWritable();
    return this.#removal.unlink(parent, name, unique);
  }

  async removeDirectory(parent: number, name: string, unique: string): Promise<void> {
    this.#checkWritable();
    return this.#removal.removeDirectory(parent, name, unique);
  }

  async rename(parent: number, name: string): Promise<void> {
    this.#checkWritable();
    return this.#removal.rename(parent, name);
  }

  /** A file being written may get times, mode and owner: they are not kept. Others may not. */
  setAttributes(nodeid: number, sizeBytes: number | undefined): Inode {
    this.#checkWritable();
    const inode = this.table.get(nodeid);
    const sizeChanges = sizeBytes !== undefined && sizeBytes !== inode.sizeBytes;
    if (inode.upload === undefined && !inode.local) {
      throw new PosixFailure("EPERM", "an object's attributes can't be changed");
    }
    if (sizeChanges) throw new PosixFailure("EPERM", "an upload only grows at its end");
    return inode;
  }

  /** Every byte acknowledged to a writer goes to S3, as if all files were closed now. */
  finish(): Promise<unknown[]> {
    return this.#writing.finish();
  }

  #restore(saved: SavedState): void {
    restoreOpenFiles(saved, this.#files, {
      inodeOf: (id) => this.table.find(id),
      streamOf: (inode) => this.#readStream(inode),
      uploadOf: (inode, handle, upload) => this.#writing.uploadOf(inode, handle, upload),
      complete: (writer) => void this.#writing.complete(writer).catch(() => {}),
    });
    this.table.pruneAll();
    this.#discarded.restore(saved.doomed);
    this.#memory.journal.commit();
  }

  #forgetHandle(handle: number): void {
    if (this.#files.remove(handle) !== undefined) {
      this.#memory.journal.note({ is: "closed", handle });
    }
  }

  #readStream(inode: Inode): ReadStream {
    const { etag, sizeBytes } = inode.object ?? { etag: "", sizeBytes: 0 };
    const key = this.#names.keyOf(inode.path);
    const source = { store: this.#reader, pool: this.#pool, key, etag };
    return new ReadStream(source, sizeBytes, this.#config.reads, this.#habits);
  }

  #closeReader({ inode, stream }: Reader): void {
    stream.close();
    inode.removeReader();
    this.table.prune(inode);
  }

  #checkWritable(): void {
    if (this.#config.readOnly) throw new PosixFailure("EROFS", "the volume is read-only");
  }

  async #makeLocal(
    parent: number,
    name: string,
    kind: "file" | "directory",
    knownAbsent = false,
  ): Promise<Inode> {
    this.#checkWritable();
    const path = this.#names.resolve(parent, name);
    const free = knownAbsent && this.table.current(path) === undefined;
    if (!free && (await this.#names.lookup(path)) !== undefined) {
      throw new Failure("conflict", `${path} exists`);
    }
    const inode = this.table.addLocal(path, kind);
    inode.object = undefined;
    inode.validUntilMs = Date.now() + this.#config.metadataTtlMs;
    return inode;
  }

  #wantsWriter(inode: Inode, flags: OpenFlags): boolean {
    if (flags.access !== "both") return flags.access === "write";
    return inode.local || (this.#config.allowOverwrite && flags.truncates);
  }

  async #openReader(inode: Inode, flags: OpenFlags): Promise<OpenedFile> {
    if (inode.upload !== undefined || inode.local) {
      throw new PosixFailure("EPERM", "it is being written");
    }
    if (flags.direct || inode.validUntilMs <= Date.now()) await this.#revalidate(inode);
    const { object } = inode;
    if (object === undefined) throw new Failure("stale", `${inode.path} has gone`);
    if (object.archived) throw new Failure("denied", `${inode.path} is in the archive`);
    const stream = this.#readStream(inode);
    inode.addReader();
    return { handle: this.#files.add({ do: "read", inode, stream }), writes: false };
  }

  /** ESTALE makes the kernel look the name up again, and then it gets the new nodeid. */
  async #revalidate(inode: Inode): Promise<void> {
    if ((await this.#names.lookupFresh(inode.path)) === inode) return;
    throw new Failure("stale", `${inode.path} was replaced`);
  }
}
