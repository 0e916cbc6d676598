import { within } from "../base/within.ts";
import type { SavedUpload } from "../journal/saved-state.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import type { Namespace } from "./namespace.ts";
import type { OpenFiles, Writer } from "./open-files.ts";
import type { OpenFlags } from "./open-flags.ts";
import type { PageCache } from "./page-cache.ts";
import { PosixFailure } from "./posix-failure.ts";
import { isSameProcess } from "./same-process.ts";
import { Upload } from "./upload.ts";
import type { UploadDeps } from "./upload.ts";

/** More would cost large files a copy that hardly anybody reads. */
const READ_BACK_BYTES_MAX = 128 * 1024;
/** The kernel tells of a close when what it was reading ahead has come: soon, but later. */
const LATE_RELEASE_MS = 1_000;

export interface WritingDeps {
  readonly table: InodeTable;
  readonly names: Namespace;
  readonly files: OpenFiles;
  readonly config: EngineConfig;
  readonly pages: PageCache;
  readonly uploads: Omit<UploadDeps, "onStored">;
}

/** Files being written: from the open that makes one to the close that puts it into S3. */
export class Writing {
  readonly #deps: WritingDeps;

  constructor(deps: WritingDeps) {
    this.#deps = deps;
  }

  /** The new handle. */
  open(inode: Inode, flags: OpenFlags, pid: number): number {
    const { config, files } = this.#deps;
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "it is being written");
    if (inode.readers > 0) throw new PosixFailure("EPERM", "it is being read");
    if (!inode.local) {
      if (!config.allowOverwrite) throw new PosixFailure("EPERM", "needs --allow-overwrite");
      if (!flags.truncates) throw new PosixFailure("EPERM", "can only be replaced (O_TRUNC)");
    }
    const handle = files.reserve();
    const upload = this.uploadOf(inode, handle);
    inode.upload = upload;
    files.set(handle, { do: "write", inode, upload, openedByPid: pid });
    return handle;
  }

  uploadOf(inode: Inode, handle: number, saved?: SavedUpload): Upload {
    const { names, pages, uploads } = this.#deps;
    // Whoever reads it back need not ask S3. Nobody can open it before that is done: later, the
    // nodeid could stand for another version.
    const onStored = async (bytes: Uint8Array) => {
      if (bytes.length <= READ_BACK_BYTES_MAX) await pages.store(inode.nodeid, bytes);
    };
    return new Upload({ ...uploads, onStored }, handle, names.keyOf(inode.path), saved);
  }

  /** `again`: a request that an earlier engine may have served without telling. */
  write(
    handle: number,
    offsetBytes: number,
    data: Uint8Array,
    again = false,
    leaving?: AbortSignal,
  ) {
    const writer = this.#deps.files.writer(handle);
    if (!again) return this.#write(writer, offsetBytes, data, leaving);
    const taken = Math.max(0, Math.min(writer.upload.sizeBytes - offsetBytes, data.length));
    // Nothing is left: to go on with a completed upload for that would upload it once more.
    if (taken === data.length) return taken;
    const written = this.#write(writer, offsetBytes + taken, data.subarray(taken), leaving);
    return typeof written === "number" ? taken + written : written.then((count) => taken + count);
  }

  /**
   * close(2) ends the upload and tells how it went. Not for an empty file and not when another
   * process closes its copy: a shell opens, duplicates and closes before its command writes.
   */
  async flush(handle: number, pid: number): Promise<void> {
    const file = this.#deps.files.find(handle);
    if (file?.do !== "write" || file.upload.sizeBytes === 0) return;
    if (!isSameProcess(file.openedByPid, pid)) return;
    // It was killed, most likely, and its exit can't be interrupted. What it wrote follows later.
    if (file.upload.wasInterrupted) throw new PosixFailure("EINTR", "its writer was interrupted");
    await this.complete(file);
  }

  async sync(handle: number): Promise<void> {
    const file = this.#deps.files.find(handle);
    if (file?.do === "write") await this.complete(file);
  }

  /** Every byte acknowledged to a writer goes to S3, as if all files were closed now. */
  async finish(): Promise<unknown[]> {
    const ends = this.#deps.files.writers.map((writer) => this.complete(writer));
    const results = await Promise.allSettled(ends);
    return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  async complete({ inode, upload }: Writer): Promise<void> {
    const { config, table } = this.#deps;
    try {
      const { etag } = await upload.complete();
      if (inode.upload !== upload) return; // another close of the same file was first
      const now = Date.now();
      inode.object = { etag, sizeBytes: upload.sizeBytes, mtimeMs: now, archived: false };
      inode.validUntilMs = now + config.metadataTtlMs;
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

  #write(
    writer: Writer,
    offsetBytes: number,
    data: Uint8Array,
    leaving?: AbortSignal,
  ): number | Promise<number> {
    if (writer.upload.completing) return this.#writeOn(writer, offsetBytes, data, leaving);
    return writer.upload.write(offsetBytes, data, leaving);
  }

  /** After fsync(2), or after the close of a duplicate: a small file just becomes a larger one. */
  async #writeOn(
    { inode, upload }: Writer,
    offsetBytes: number,
    data: Uint8Array,
    leaving?: AbortSignal,
  ): Promise<number> {
    await upload.complete(leaving);
    if (inode.readers > 0 && upload.continuable) await untilUnread(inode, leaving);
    if (inode.upload === undefined && inode.readers === 0 && upload.continuable) {
      upload.continue(() => this.#deps.pages.drop(inode.nodeid));
      inode.upload = upload;
    }
    return upload.write(offsetBytes, data, leaving);
  }
}

/** Not for long: one who goes on reading keeps it from being written. */
async function untilUnread(inode: Inode, leaving?: AbortSignal): Promise<void> {
  const limit = AbortSignal.timeout(LATE_RELEASE_MS);
  const signal = leaving === undefined ? limit : AbortSignal.any([limit, leaving]);
  await within(inode.unread, signal, () => new Error("still read")).catch(() => undefined);
  if (leaving?.aborted === true) {
    throw new PosixFailure("EINTR", `${inode.path}: its writer was interrupted`);
  }
}

/** An upload that is being completed ends soon: whoever comes now sees the finished file. */
export async function settled(inode: Inode): Promise<void> {
  if (inode.upload?.completing !== true) return;
  await inode.upload.complete().catch(() => undefined);
}
