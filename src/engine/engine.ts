import type { Journal } from "../journal/journal.ts";
import type { JournalRecord } from "../journal/record.ts";
import type { SavedState } from "../journal/saved-state.ts";
import type { Spool } from "../journal/spool.ts";
import type { ObjectStore } from "../s3/object-store.ts";
import { Answers } from "./answers.ts";
import type { DirectoryStream } from "./directory-stream.ts";
import { Deletions } from "./deletions.ts";
import { DiscardedUploads } from "./discarded-uploads.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import { InodeTable } from "./inode-table.ts";
import { JournalRoom } from "./journal-room.ts";
import { LocalNames } from "./local-names.ts";
import { Namespace } from "./namespace.ts";
import { OpenFiles } from "./open-files.ts";
import type { OpenedAs, Writer } from "./open-files.ts";
import { Removal } from "./removal.ts";
import type { RemovalDeps } from "./removal.ts";
import { openFileRecords, openRecordOf, releasedRecordOf, restoreOpenFiles } from "./resume.ts";
import { PartSizes } from "./part-sizes.ts";
import { parseOpenFlags } from "./open-flags.ts";
import type { OpenFlags } from "./open-flags.ts";
import { NO_PAGE_CACHE } from "./page-cache.ts";
import { PendingReads } from "./pending-reads.ts";
import { PosixFailure } from "./posix-failure.ts";
import type { Lent } from "./read-stream.ts";
import { Reading } from "./reading.ts";
import type { Surroundings } from "./surroundings.ts";
import { WalkAhead } from "./walk-ahead.ts";
import { SpoolQueue } from "./spool-queue.ts";
import { Writing } from "./writing.ts";
import type { FileUser, FileWrite } from "./writing.ts";

export interface OpenedFile {
  readonly handle: number;
  readonly how: OpenedAs;
}

/** What outlives the process, and what was found in it. */
export interface EngineMemory {
  readonly journal: Pick<Journal, "note" | "commit" | "hasRoom" | "makeRoom" | "shrunk">;
  readonly spool: Spool;
  readonly saved: SavedState | undefined;
}

const noop = () => undefined;

/** A bucket as a file system, with no kernel in sight: what each operation means on S3. */
export class Engine {
  readonly table: InodeTable;
  readonly answers: Answers;
  readonly #config: EngineConfig;
  readonly #memory: EngineMemory;
  readonly #names: Namespace;
  readonly #files: OpenFiles;
  readonly #deletions = new Deletions();
  readonly #removal: Removal;
  readonly #reading: Reading;
  readonly #local: LocalNames;
  readonly #writing: Writing;
  readonly #walk: WalkAhead;
  readonly #discarded: DiscardedUploads;
  readonly #onLostUpload: (error: unknown) => void;

  constructor(
    store: ObjectStore,
    config: EngineConfig,
    memory: EngineMemory,
    { reader = store, pages = NO_PAGE_CACHE, allocate, onLostUpload = noop }: Surroundings = {},
  ) {
    this.#onLostUpload = onLostUpload;
    const { journal, saved } = memory;
    this.#config = config;
    this.#memory = memory;
    this.table = new InodeTable((record, known) => journal.note(record, known), saved);
    this.answers = new Answers(journal, saved);
    this.#names = new Namespace(store, this.table, config);
    this.#files = new OpenFiles(saved?.nextHandle);
    this.#discarded = new DiscardedUploads(store, journal, config.latePartChecksMs);
    const { table, answers } = this;
    const [names, files, deletions] = [this.#names, this.#files, this.#deletions];
    const settled: RemovalDeps["settled"] = (...asked) => this.#writing.settledSoon(...asked);
    this.#removal = new Removal({ store, table, names, answers, deletions, config, settled });
    this.#local = new LocalNames({ table, names, deletions, config });
    const { writePartSizeBytes, requestLimitMs } = config;
    const partSizes = new PartSizes(writePartSizeBytes, config.writePartLimits);
    const spool = new SpoolQueue(memory.spool, writePartSizeBytes);
    const room = new JournalRoom(journal, () => files.writers.map(({ upload }) => upload));
    const discarded = this.#discarded;
    const uploads = { store, journal, room, spool, discarded, partSizes, requestLimitMs };
    this.#walk = new WalkAhead(table, names, config.metadataTtlMs);
    const shared = { table, names, files, config, reads: new PendingReads() };
    this.#reading = new Reading({ ...shared, reader, readsAskS3: reader === store, allocate });
    this.#writing = new Writing({ ...shared, deletions, pages, uploads });
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
    this.#memory.journal.makeRoom();
    this.#memory.journal.note({ ...openRecordOf(handle, file), unique });
    this.#files.acknowledge(handle);
    this.answers.remember(unique, { handle });
  }

  /** Whether the kernel may be told of more names. */
  get hasRoom(): boolean {
    return this.#memory.journal.hasRoom;
  }

  /** How a handle was opened; undefined when it is not open. */
  openedAs(handle: number): OpenedAs | undefined {
    return this.#files.openedAs(handle);
  }

  /**
   * Does not count as a reference: the edge that tells the kernel does the counting. `pid`: the
   * thread that asks, whose open(2) it may belong to.
   */
  lookup(parent: number, name: string, pid = 0): Inode | undefined | Promise<Inode | undefined> {
    return this.#names.lookup(this.#names.resolve(parent, name), pid);
  }

  async makeFile(parent: number, name: string): Promise<Inode> {
    this.#checkWritable();
    return this.#local.make(parent, name, "file");
  }

  /** S3 has no directories: it is ours alone until a file in it is uploaded. */
  async makeDirectory(parent: number, name: string): Promise<Inode> {
    this.#checkWritable();
    return this.#local.make(parent, name, "directory");
  }

  unmake(nodeid: number): void {
    this.#local.unmake(nodeid);
  }

  /** `knownAbsent`: S3 was asked for the name just now, and had nothing. */
  async create(parent: number, name: string, flags: number, pid: number, knownAbsent = false) {
    const parsed = parseOpenFlags(flags);
    this.#checkWritable();
    const inode = await this.#local.make(parent, name, "file", knownAbsent);
    return { inode, handle: await this.#openWriter(inode, parsed, pid) };
  }

  /** A caller that is `leaving` is told EINTR where it waits for another one's RELEASE. */
  async open(
    nodeid: number,
    flags: number,
    pid: number,
    leaving?: AbortSignal,
  ): Promise<OpenedFile> {
    const inode = this.table.get(nodeid);
    const parsed = parseOpenFlags(flags);
    if (inode.kind === "directory") throw new PosixFailure("EISDIR", inode.path);
    await this.#writing.settled(inode, leaving);
    await this.#removal.checkNotDeleted(inode);
    if (!this.#wantsWriter(inode, parsed)) {
      const handle = await this.#reading.open(inode, parsed, pid);
      return { handle, how: this.openedAs(handle) ?? "read" };
    }
    this.#checkWritable();
    return { handle: await this.#openWriter(inode, parsed, pid, leaving), how: "write" };
  }

  read(handle: number, offsetBytes: number, sizeBytes: number): Promise<Lent> {
    return this.#reading.read(handle, offsetBytes, sizeBytes);
  }

  write(request: FileWrite): number | Promise<number> {
    return this.#writing.write(request);
  }

  flush(handle: number, user: FileUser): Promise<void> {
    return this.#writing.flush(handle, user);
  }

  sync(handle: number): Promise<void> {
    return this.#writing.sync(handle);
  }

  /**
   * Notes that the last descriptor is closed before it returns; then the kernel can have its
   * answer. Resolves when the upload has ended, and rejects if that has failed.
   */
  async release(handle: number): Promise<void> {
    const file = this.#files.find(handle);
    if (file?.do === "write") return this.#releaseWriter(handle, file);
    this.#forgetHandle(handle);
    if (file?.do === "read") this.#reading.close(file);
  }

  /** The opener never got its handle: a file that it would have replaced stays as it is. */
  abandon(handle: number): void {
    const file = this.#files.find(handle);
    this.#forgetHandle(handle);
    if (file?.do === "read") this.#reading.close(file);
    if (file?.do !== "write") return;
    void this.#writing.abort(file, "its opener has left");
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

  /** After EINTR to a caller that is `leaving`, what S3 was asked for by then may still happen. */
  async unlink(...request: Parameters<Removal["unlink"]>): Promise<void> {
    this.#checkWritable();
    return this.#removal.unlink(...request);
  }

  async removeDirectory(...request: Parameters<Removal["removeDirectory"]>): Promise<void> {
    this.#checkWritable();
    return this.#removal.removeDirectory(...request);
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

  /** The mount ends: see Writing.finish(). Resolves when no request to S3 is under way. */
  async finish(): Promise<unknown[]> {
    const failures = await this.#writing.finish();
    await Promise.all([this.#discarded.finish(), this.#deletions.finish()]);
    return failures;
  }

  #restore(saved: SavedState): void {
    restoreOpenFiles(saved, this.#files, {
      inodeOf: (id) => this.table.find(id),
      streamOf: (inode) => this.#reading.streamOf(inode),
      writerOf: (...found) => this.#writing.writerOf(...found),
      complete: (writer) => void this.#writing.complete(writer).catch(() => {}),
      endUpload: (...released) => void this.#endUpload(...released).catch(this.#onLostUpload),
    });
    this.#memory.spool.releaseUnclaimed();
    this.table.pruneAll();
    this.#discarded.restore(saved);
    this.#removal.restore(this.#config.prefix);
    this.#memory.journal.commit();
  }

  async #releaseWriter(handle: number, writer: Writer): Promise<void> {
    const { inode, upload, isReleased } = writer;
    if (isReleased) return; // the request comes again
    const hasEnded = upload.completed && upload.failure === undefined && inode.upload !== upload;
    if (hasEnded) return this.#forgetWriter(handle, writer);
    writer.isReleased = true;
    writer.lastClose.settle();
    this.#memory.journal.note(releasedRecordOf(handle));
    return this.#endUpload(handle, writer);
  }

  async #endUpload(handle: number, writer: Writer): Promise<void> {
    try {
      await this.#writing.complete(writer);
    } finally {
      this.#forgetWriter(handle, writer);
    }
  }

  #forgetWriter(handle: number, { upload }: Writer): void {
    this.#forgetHandle(handle);
    // The memory may be another upload's as soon as it is returned: a successor that did not know
    // of the end would claim it.
    this.#memory.journal.commit();
    upload.close();
  }

  #forgetHandle(handle: number): void {
    if (this.#files.remove(handle) !== undefined) {
      this.#memory.journal.note({ is: "closed", handle });
    }
  }

  #openWriter(inode: Inode, flags: OpenFlags, pid: number, leaving?: AbortSignal): Promise<number> {
    const checkThere = () => this.#removal.checkNotDeleting(inode);
    return this.#writing.open(inode, flags, { pid, leaving, checkThere });
  }

  #checkWritable(): void {
    if (this.#config.readOnly) throw new PosixFailure("EROFS", "the volume is read-only");
  }

  #wantsWriter(inode: Inode, flags: OpenFlags): boolean {
    if (flags.access !== "both") return flags.access === "write";
    return inode.local || (this.#config.allowOverwrite && flags.truncates);
  }
}
