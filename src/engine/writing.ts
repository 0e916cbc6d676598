import { within } from "../base/within.ts";
import { newUpload } from "../journal/saved-state.ts";
import type { SavedUpload } from "../journal/saved-state.ts";
import { modificationTimeOf } from "../s3/modification-time.ts";
import type { Deletions } from "./deletions.ts";
import type { EngineConfig } from "./engine-config.ts";
import { FileOwners } from "./file-owners.ts";
import type { OwnerRole } from "./file-owners.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import { LastClose } from "./last-close.ts";
import { lateRelease, releaseSoon } from "./late-release.ts";
import type { Namespace } from "./namespace.ts";
import type { OpenFiles, Writer } from "./open-files.ts";
import type { OpenFlags } from "./open-flags.ts";
import type { PageCache } from "./page-cache.ts";
import type { PendingReads } from "./pending-reads.ts";
import { isInterruption, PosixFailure } from "./posix-failure.ts";
import { Upload } from "./upload.ts";
import type { UploadDeps } from "./upload-deps.ts";
import type { WriteRequest } from "./write-request.ts";

/** More would cost large files a copy that hardly any program reads. */
const READ_BACK_BYTES_MAX = 128 * 1024;

/** The close of a killed program waits so long, and that of one that goes on after a signal. */
const KILLED_CLOSE_MS = 5_000;

const NOT_CLOSED = { isClosed: false, isReleased: false };
const ENDED = "the mount has ended";

export interface WritingDeps {
  readonly table: InodeTable;
  readonly names: Namespace;
  readonly files: OpenFiles;
  readonly deletions: Deletions;
  readonly reads: PendingReads;
  readonly config: EngineConfig;
  readonly pages: PageCache;
  readonly uploads: Omit<UploadDeps, "onStored">;
}

/** A process as FUSE names it: `owner` is its files_struct (lock_owner), if the request has it. */
export interface FileUser {
  readonly pid: number;
  readonly owner: string;
}

export interface Opener {
  readonly pid: number;
  readonly leaving: AbortSignal | undefined;
  /** Throws when the file is being deleted, which may have begun while the opener waited. */
  readonly checkThere: () => void;
}

export interface FileWrite extends WriteRequest {
  readonly handle: number;
  readonly offsetBytes: number;
  readonly data: Uint8Array;
  /** The request was sent before: an earlier engine may have served it without an answer. */
  readonly again?: boolean;
  readonly user?: FileUser;
}

/** Files being written: from the open that makes one to the close that puts it into S3. */
export class Writing {
  readonly #deps: WritingDeps;
  #hasEnded = false;
  #blockedWrites = 0;
  #blockedBytes = 0;

  constructor(deps: WritingDeps) {
    this.#deps = deps;
  }

  /** The new handle. Waits for the RELEASE of a reader that has just closed the file. */
  async open(inode: Inode, flags: OpenFlags, opener: Opener): Promise<number> {
    const { files } = this.#deps;
    const { pid, leaving, checkThere } = opener;
    this.#checkWritable(inode, flags);
    if (inode.readers > 0) await this.#unread(inode, leaving);
    checkThere();
    this.#checkWritable(inode, flags);
    if (inode.readers > 0) throw new PosixFailure("EPERM", `${inode.path} is open for reading`);
    const handle = files.reserve();
    const writer = this.writerOf(inode, handle, pid);
    inode.upload = writer.upload;
    inode.wasRead = false; // the kernel drops the pages that it has
    files.set(handle, writer);
    return handle;
  }

  writerOf(inode: Inode, handle: number, pid: number, saved: SavedUpload = newUpload()): Writer {
    const { names, pages, uploads } = this.#deps;
    // A program that reads the file back need not ask S3. Nobody can open the file before the
    // kernel has the bytes: later, the nodeid could stand for another version.
    const onStored = async (bytes: Uint8Array) => {
      if (bytes.length > READ_BACK_BYTES_MAX) return;
      inode.wasRead = true;
      await pages.store(inode.nodeid, bytes);
    };
    const upload = new Upload({ ...uploads, onStored }, handle, names.keyOf(inode.path), saved);
    const note = (owner: string, role: OwnerRole) => upload.noteOwner(owner, role);
    const owners = new FileOwners(pid, note, saved.owners.values());
    const lastClose = new LastClose();
    return { do: "write", inode, upload, openedByPid: pid, owners, lastClose, ...NOT_CLOSED };
  }

  write(request: FileWrite): number | Promise<number> {
    const { data, offsetBytes, user } = request;
    const writer = this.#deps.files.writer(request.handle);
    if (this.#hasEnded) throw new PosixFailure("EIO", `${writer.inode.path}: ${ENDED}`);
    const taken = request.again === true ? writer.upload.takenBefore(request) : 0;
    // Nothing is left: to reopen a completed upload for that would upload the file once more.
    if (taken > 0 && taken === data.length) return taken;
    writer.isClosed = false;
    writer.lastClose.settle();
    if (user !== undefined) writer.owners.wrote(user.owner, user.pid);
    const rest = { ...request, offsetBytes: offsetBytes + taken, data: data.subarray(taken) };
    const written = this.#write(writer, rest);
    if (typeof written === "number") return taken + written;
    this.#limitBlocked(writer, data.length);
    return written
      .then((count) => taken + count)
      .finally(() => {
        this.#blockedWrites -= 1;
        this.#blockedBytes -= data.length;
      });
  }

  /**
   * close(2) ends the upload and reports how it went. Exceptions are an empty file and the close
   * of an inherited copy: a shell opens, duplicates and closes before its command writes.
   */
  async flush(handle: number, { pid, owner }: FileUser): Promise<void> {
    const file = this.#deps.files.find(handle);
    if (file?.do !== "write") return;
    const { inode, upload, lastClose } = file;
    lastClose.expectRelease();
    if (upload.failure !== undefined) return this.complete(file);
    const isEnd = file.owners.isEndedBy(owner, pid, upload.fitsIntoPart);
    if (!isEnd) return;
    const loss = upload.endCut(); // of a writer that was killed, most likely: it need not wait
    if (loss !== undefined) throw loss;
    if (upload.sizeBytes === 0) return;
    file.isClosed = true;
    const { wasInterrupted } = upload;
    const completed = this.complete(file);
    lastClose.settle(); // callers that wait for its RELEASE wait for the completion instead
    if (!wasInterrupted) return completed;
    // The exit of a killed writer can't be interrupted, and is no different from a close.
    const limit = AbortSignal.timeout(KILLED_CLOSE_MS);
    const reason = `${inode.path}: its writer was interrupted, and its upload goes on`;
    return within(completed, limit, () => new PosixFailure("EINTR", reason));
  }

  async sync(handle: number): Promise<void> {
    const file = this.#deps.files.find(handle);
    if (file?.do !== "write") return;
    const loss = file.upload.endCut();
    if (loss !== undefined && file.upload.completing) throw loss;
    const completed = this.complete(file);
    file.lastClose.settle();
    await completed;
  }

  /**
   * Waits for an upload that ends soon, and for the RELEASE that ends a file if close(2) did not:
   * a caller that comes now sees the finished file.
   */
  settled(inode: Inode, leaving?: AbortSignal): Promise<void> {
    return this.#settled(inode, (released) => this.#late(inode, released, leaving));
  }

  /** Likewise for an unlink, which must not wait for long: see releaseSoon(). */
  settledSoon(inode: Inode, leaving: AbortSignal): Promise<void> {
    return this.#settled(inode, (released) => releaseSoon(released, leaving));
  }

  async #settled(inode: Inode, wait: (released: Promise<void>) => Promise<void>): Promise<void> {
    const writer = this.#deps.files.writerOf(inode);
    if (writer === undefined) return;
    const { upload, lastClose } = writer;
    const { expected } = lastClose;
    if (expected !== undefined && !upload.completing) await wait(expected);
    if (!upload.completing && !writer.isReleased) return;
    await upload.complete().catch(() => undefined);
  }

  /**
   * The mount ends, and no file can be opened for writing any more. Files that were closed or
   * synced are completed; files that are still open are not: no program has said that they are
   * whole. Returns what failed.
   */
  async finish(): Promise<unknown[]> {
    this.#hasEnded = true;
    const results = await Promise.allSettled(
      this.#deps.files.writers.map((writer) => this.#finish(writer)),
    );
    return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  #finish(writer: Writer): Promise<void> {
    if (isWhole(writer)) return this.complete(writer);
    // The failure is told already, and the inode stays until the journal has what S3 must remove.
    if (writer.isReleased) return this.complete(writer).catch(() => undefined);
    return this.abort(writer, ENDED);
  }

  /** No object appears; an object that the file would have replaced stays. */
  async abort({ inode, upload }: Writer, reason: string): Promise<void> {
    const { table } = this.#deps;
    const aborted = upload.abort(new PosixFailure("EIO", `${inode.path}: ${reason}`));
    if (inode.upload === upload) {
      inode.upload = undefined;
      if (inode.local) table.unbind(inode);
      else table.prune(inode);
    }
    await aborted;
  }

  async complete({ inode, upload }: Writer): Promise<void> {
    const { config, table } = this.#deps;
    try {
      const { etag } = await upload.complete();
      if (inode.upload !== upload) return; // another close of the same file was first
      const mtimeMs = modificationTimeOf(Date.now());
      inode.object = { etag, sizeBytes: upload.sizeBytes, mtimeMs, archived: false };
      inode.validUntilMs = performance.now() + config.metadataTtlMs;
      inode.upload = undefined;
      upload.noteCompleted(etag);
      table.markRemote(inode);
    } catch (error) {
      if (inode.upload === upload) {
        inode.upload = undefined;
        table.unbind(inode); // its nodeid stands for bytes that exist nowhere
      }
      throw error;
    }
  }

  /** Waits for the last reader's RELEASE, but not for long: the file may be read for hours. */
  #unread(inode: Inode, leaving?: AbortSignal): Promise<void> {
    return this.#late(inode, inode.unread, leaving);
  }

  #late(inode: Inode, released: Promise<void>, leaving?: AbortSignal): Promise<void> {
    const { reads, config } = this.#deps;
    const { requestLimitMs } = config;
    return lateRelease(inode, released, { reads, requestLimitMs }, leaving);
  }

  #checkWritable(inode: Inode, flags: OpenFlags): void {
    const { config } = this.#deps;
    if (this.#hasEnded) throw new PosixFailure("EIO", `${inode.path}: ${ENDED}`);
    if (inode.upload !== undefined) {
      throw new PosixFailure("EPERM", `${inode.path} is open for writing`);
    }
    if (inode.local) return;
    if (!config.allowOverwrite) throw new PosixFailure("EPERM", "needs --allow-overwrite");
    if (!flags.truncates) throw new PosixFailure("EPERM", "can only be replaced (O_TRUNC)");
  }

  /** A blocked WRITE keeps its data in memory: beyond the limit its file fails. */
  #limitBlocked({ upload }: Writer, sizeBytes: number): void {
    this.#blockedWrites += 1;
    this.#blockedBytes += sizeBytes;
    const { blockedWriteBytes = Infinity, blockedWritesMax = Infinity } = this.#deps.config;
    const isMany = this.#blockedWrites > blockedWritesMax;
    if (!isMany && this.#blockedBytes <= blockedWriteBytes) return;
    const reason = `${this.#blockedWrites} writes wait for memory: see --memory-target`;
    void upload.abort(new PosixFailure("ENOMEM", reason));
  }

  #write(writer: Writer, request: FileWrite): number | Promise<number> {
    const { upload } = writer;
    const isOver = upload.completing && upload.failure === undefined;
    if (isOver) return this.#writeOn(writer, request);
    return upload.write(request.offsetBytes, request.data, request);
  }

  /** After fsync(2), or after the close of a copy: a small file just becomes a larger one. */
  async #writeOn({ inode, upload }: Writer, request: FileWrite): Promise<number> {
    const { leaving } = request;
    const { table, deletions } = this.#deps;
    try {
      const { etag } = await upload.complete(leaving);
      if (inode.readers > 0 && upload.continuable) await this.#unread(inode, leaving);
      // The DELETE of a killed rm(1) would hit the larger file, which the close has promised.
      while (deletions.isUnderWay(inode.path)) await deletions.ended(inode.path, leaving);
      // The name may be deleted or written anew since: what was uploaded then must stay.
      const isCurrent = table.current(inode.path) === inode && inode.object?.etag === etag;
      const isFree = inode.upload === undefined && inode.readers === 0;
      if (isCurrent && isFree && upload.continuable) {
        upload.continue(() => this.#deps.pages.drop(inode.nodeid));
        inode.upload = upload;
      }
      return await upload.write(request.offsetBytes, request.data, request);
    } catch (error) {
      if (isInterruption(error)) upload.noteCut();
      throw error;
    }
  }
}

/**
 * Whether a program has said that the file is whole. The close of a copy says nothing, though it
 * may have been the last one: only RELEASE tells, and the kernel drops it with its connection.
 */
function isWhole({ upload, isClosed, isReleased }: Writer): boolean {
  return upload.completing || ((isClosed || isReleased) && upload.failure === undefined);
}
