import { Failure } from "../base/failure.ts";
import type { ObjectStore } from "../s3/object-store.ts";
import { BufferPool } from "./buffer-pool.ts";
import type { DirectoryStream } from "./directory-stream.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import { InodeTable } from "./inode-table.ts";
import { Namespace } from "./namespace.ts";
import { OpenFiles } from "./open-files.ts";
import type { Reader, Writer } from "./open-files.ts";
import { parseOpenFlags } from "./open-flags.ts";
import type { OpenFlags } from "./open-flags.ts";
import { PosixFailure } from "./posix-failure.ts";
import { ReadStream } from "./read-stream.ts";
import type { Lent } from "./read-stream.ts";
import { isSameProcess } from "./same-process.ts";
import { Upload } from "./upload.ts";

const DELETE_LIMIT_MS = 120_000;

export interface OpenedFile {
  readonly handle: number;
  readonly writes: boolean;
}

/** A bucket as a file system, with no kernel in sight: what each operation means on S3. */
export class Engine {
  readonly table = new InodeTable();
  readonly #config: EngineConfig;
  readonly #store: ObjectStore;
  readonly #names: Namespace;
  readonly #files = new OpenFiles();
  readonly #pool: BufferPool;

  constructor(store: ObjectStore, config: EngineConfig) {
    this.#store = store;
    this.#config = config;
    this.#names = new Namespace(store, this.table, config);
    this.#pool = new BufferPool(config.memoryBytes);
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
    return { inode, opened: this.#openWriter(inode, parsed, pid) };
  }

  async open(nodeid: number, flags: number, pid: number): Promise<OpenedFile> {
    const inode = this.table.get(nodeid);
    const parsed = parseOpenFlags(flags);
    if (inode.kind === "directory") throw new PosixFailure("EISDIR", inode.path);
    await settled(inode);
    return this.#wantsWriter(inode, parsed)
      ? this.#openWriter(inode, parsed, pid)
      : this.#openReader(inode, parsed);
  }

  read(handle: number, offsetBytes: number, sizeBytes: number): Promise<Lent> {
    return this.#files.reader(handle).stream.read(offsetBytes, sizeBytes);
  }

  write(handle: number, offsetBytes: number, data: Uint8Array): number | Promise<number> {
    const writer = this.#files.writer(handle);
    if (writer.upload.completing) return this.#writeOn(writer, offsetBytes, data);
    return writer.upload.write(offsetBytes, data);
  }

  /**
   * close(2) ends the upload and tells how it went. Not for an empty file and not when another
   * process closes its copy: a shell opens, duplicates and closes before its command writes.
   */
  async flush(handle: number, pid: number): Promise<void> {
    const file = this.#files.find(handle);
    if (file?.do !== "write" || file.upload.sizeBytes === 0) return;
    if (!isSameProcess(file.openedByPid, pid)) return;
    await this.#complete(file);
  }

  async sync(handle: number): Promise<void> {
    const file = this.#files.find(handle);
    if (file?.do === "write") await this.#complete(file);
  }

  async release(handle: number): Promise<void> {
    const file = this.#files.remove(handle);
    if (file?.do === "read") this.#closeReader(file);
    if (file?.do !== "write") return;
    try {
      await this.#complete(file);
    } finally {
      file.upload.close();
    }
  }

  /** The opener never got its handle: a file that it would have replaced stays as it is. */
  abandon(handle: number): void {
    const file = this.#files.remove(handle);
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
      directory.stream = this.#names.list(directory.inode);
    }
    const { stream } = directory;
    await stream.load(index);
    return stream;
  }

  releaseDirectory(handle: number): void {
    if (this.#files.find(handle)?.do === "list") this.#files.remove(handle);
  }

  async unlink(parent: number, name: string): Promise<void> {
    this.#checkWritable();
    const inode = await this.#names.mustExist(this.#names.resolve(parent, name));
    if (inode.kind === "directory") throw new PosixFailure("EISDIR", inode.path);
    if (!this.#config.allowDelete) throw new PosixFailure("EPERM", "needs --allow-delete");
    await settled(inode);
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "it is being written");
    if (!inode.local) {
      const signal = AbortSignal.timeout(DELETE_LIMIT_MS);
      await this.#store.delete(this.#names.keyOf(inode.path), signal);
    }
    this.table.unbind(inode);
  }

  /** Only what mkdir made and nobody used: a directory in S3 ends with its last object. */
  async removeDirectory(parent: number, name: string): Promise<void> {
    this.#checkWritable();
    const inode = await this.#names.mustExist(this.#names.resolve(parent, name));
    if (inode.kind !== "directory") throw new PosixFailure("ENOTDIR", inode.path);
    if (!inode.local) throw new PosixFailure("EPERM", "it has objects in S3");
    if (this.table.localChildren(inode.path).length > 0) {
      throw new PosixFailure("ENOTEMPTY", inode.path);
    }
    this.table.unbind(inode);
  }

  async rename(parent: number, name: string): Promise<void> {
    this.#checkWritable();
    const inode = await this.#names.mustExist(this.#names.resolve(parent, name));
    if (inode.kind === "directory") throw new PosixFailure("EPERM", "directories can't move");
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "it is being written");
    throw new PosixFailure("ENOSYS", "S3 has no rename");
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
  async finish(): Promise<unknown[]> {
    const ends = this.#files.writers.map((writer) => this.#complete(writer));
    const results = await Promise.allSettled(ends);
    return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  /** After fsync(2), or after the close of a duplicate: a small file just becomes a larger one. */
  async #writeOn({ inode, upload }: Writer, offsetBytes: number, data: Uint8Array) {
    await upload.complete();
    if (inode.upload === undefined && inode.readers === 0 && upload.continuable) {
      upload.continue();
      inode.upload = upload;
    }
    return upload.write(offsetBytes, data);
  }

  #closeReader({ inode, stream }: Reader): void {
    stream.close();
    inode.readers -= 1;
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

  #openWriter(inode: Inode, flags: OpenFlags, pid: number): OpenedFile {
    this.#checkWritable();
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "it is being written");
    if (inode.readers > 0) throw new PosixFailure("EPERM", "it is being read");
    if (!inode.local) {
      if (!this.#config.allowOverwrite) throw new PosixFailure("EPERM", "needs --allow-overwrite");
      if (!flags.truncates) throw new PosixFailure("EPERM", "can only be replaced (O_TRUNC)");
    }
    const { writePartSizeBytes: partSizeBytes } = this.#config;
    const deps = { store: this.#store, pool: this.#pool, partSizeBytes };
    const upload = new Upload(deps, this.#names.keyOf(inode.path));
    inode.upload = upload;
    const handle = this.#files.add({ do: "write", inode, upload, openedByPid: pid });
    return { handle, writes: true };
  }

  async #openReader(inode: Inode, flags: OpenFlags): Promise<OpenedFile> {
    if (inode.upload !== undefined || inode.local) {
      throw new PosixFailure("EPERM", "it is being written");
    }
    if (flags.direct || inode.validUntilMs <= Date.now()) await this.#revalidate(inode);
    const { object } = inode;
    if (object === undefined) throw new Failure("stale", `${inode.path} has gone`);
    if (object.archived) throw new Failure("denied", `${inode.path} is in the archive`);
    const key = this.#names.keyOf(inode.path);
    const source = { store: this.#store, pool: this.#pool, key, etag: object.etag };
    const { readPartSizeBytes } = this.#config;
    const stream = new ReadStream(source, object.sizeBytes, readPartSizeBytes);
    inode.readers += 1;
    return { handle: this.#files.add({ do: "read", inode, stream }), writes: false };
  }

  /** ESTALE makes the kernel look the name up again, and then it gets the new nodeid. */
  async #revalidate(inode: Inode): Promise<void> {
    if ((await this.#names.lookupFresh(inode.path)) === inode) return;
    throw new Failure("stale", `${inode.path} was replaced`);
  }

  async #complete({ inode, upload }: Writer): Promise<void> {
    try {
      const { etag } = await upload.complete();
      if (inode.upload !== upload) return; // another close of the same file was first
      const now = Date.now();
      inode.object = { etag, sizeBytes: upload.sizeBytes, mtimeMs: now, archived: false };
      inode.validUntilMs = now + this.#config.metadataTtlMs;
      inode.upload = undefined;
      this.table.markRemote(inode);
    } catch (error) {
      if (inode.upload === upload) {
        inode.upload = undefined;
        this.table.unbind(inode); // its nodeid stands for bytes that exist nowhere
      }
      throw error;
    }
  }
}

/** An upload that is being completed ends soon: whoever comes now sees the finished file. */
async function settled(inode: Inode): Promise<void> {
  if (inode.upload?.completing !== true) return;
  await inode.upload.complete().catch(() => undefined);
}
