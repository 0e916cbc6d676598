import { Failure } from "../base/failure.ts";
import type { ObjectReader } from "../s3/object-store.ts";
import { BufferPool } from "./buffer-pool.ts";
import type { Allocate } from "./buffer-pool.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import type { Namespace } from "./namespace.ts";
import type { OpenFiles, Reader } from "./open-files.ts";
import type { OpenFlags } from "./open-flags.ts";
import type { PendingReads } from "./pending-reads.ts";
import { PosixFailure } from "./posix-failure.ts";
import { ReadStream } from "./read-stream.ts";
import type { Lent } from "./read-stream.ts";
import { ReadingHabits } from "./reading-habits.ts";

/** An object of this size is fetched whole by its first reader in any case. */
const SMALL_BYTES_MAX = 1 << 20;

export interface ReadingDeps {
  readonly table: InodeTable;
  readonly names: Namespace;
  readonly files: OpenFiles;
  readonly config: EngineConfig;
  readonly reads: PendingReads;
  readonly reader: ObjectReader;
  /** Every read is a request to S3: false where a disk may have the bytes. */
  readonly readsAskS3: boolean;
  readonly allocate: Allocate | undefined;
}

/** Files being read: from the open that pins a version to the close that lets it go. */
export class Reading {
  readonly #deps: ReadingDeps;
  readonly #pool: BufferPool;
  readonly #habits = new ReadingHabits();

  constructor(deps: ReadingDeps) {
    this.#deps = deps;
    this.#pool = new BufferPool(deps.config.memoryBytes, { allocate: deps.allocate });
  }

  /** The new handle. */
  async open(inode: Inode, flags: OpenFlags, pid: number): Promise<number> {
    checkUnwritten(inode);
    // With FUSE_ATOMIC_O_TRUNC the kernel shows an empty file once this open has succeeded.
    if (flags.truncates) throw new PosixFailure("EPERM", "truncating needs --allow-overwrite");
    const begun = this.#isTrusted(inode, flags, pid) ? undefined : await this.#revalidate(inode);
    try {
      checkUnwritten(inode); // a writer may have come meanwhile
      checkThere(inode);
      const stream = begun ?? this.streamOf(inode);
      const bypassesCache = flags.access === "both";
      inode.addReader();
      return this.#deps.files.add({ do: "read", inode, stream, bypassesCache });
    } catch (error) {
      begun?.close();
      throw error;
    }
  }

  read(handle: number, offsetBytes: number, sizeBytes: number): Promise<Lent> {
    const { inode, stream } = this.#deps.files.reader(handle);
    inode.wasRead = true;
    return this.#deps.reads.track(inode, stream.read(offsetBytes, sizeBytes));
  }

  streamOf(inode: Inode): ReadStream {
    const { names, reader, config } = this.#deps;
    const { etag, sizeBytes: objectBytes } = inode.object ?? { etag: "", sizeBytes: 0 };
    const key = names.keyOf(inode.path);
    const source = { store: reader, pool: this.#pool, key, etag, objectBytes };
    return new ReadStream(source, config.reads, this.#habits);
  }

  close({ inode, stream }: Reader): void {
    stream.close();
    inode.removeReader();
    this.#deps.table.prune(inode);
  }

  /** Whether what is known of the object need not be asked again. */
  #isTrusted(inode: Inode, { direct }: OpenFlags, pid: number): boolean {
    const { object, validUntilMs } = inode;
    const isConfirmed = inode.takeConfirmation(pid);
    if (direct || object === undefined || object.etag === "") return false;
    // A listing says GLACIER also of objects that are restored: only a HEAD tells them apart.
    if (isConfirmed || object.archived) return isConfirmed;
    return !this.#deps.config.revalidatesOpens && validUntilMs > performance.now();
  }

  /**
   * Asks S3 whether the inode is still the current version: by the GET that a reader needs anyway,
   * whose stream is returned, or by a HEAD. ESTALE makes the kernel look the name up again.
   */
  async #revalidate(inode: Inode): Promise<ReadStream | undefined> {
    if (this.#wantsGet(inode)) return this.#begin(inode);
    if (await this.#deps.names.revalidate(inode)) return undefined;
    throw new Failure("stale", `${inode.path} was replaced`);
  }

  #wantsGet({ object, wasRead }: Inode): boolean {
    if (!this.#deps.readsAskS3 || wasRead || object === undefined) return false;
    const { sizeBytes, etag, archived } = object;
    if (etag === "" || archived || sizeBytes === 0 || sizeBytes > SMALL_BYTES_MAX) return false;
    return this.#pool.makeRoomFor(sizeBytes);
  }

  async #begin(inode: Inode): Promise<ReadStream | undefined> {
    const { names } = this.#deps;
    const etag = inode.object?.etag;
    const stream = this.streamOf(inode);
    const askedMs = performance.now();
    inode.wasRead = true; // an open at the same time asks by a HEAD, and reads the same pages
    try {
      await stream.begin();
      if (inode.object?.etag === etag) {
        names.prolong(inode, askedMs);
        return stream;
      }
      stream.close(); // written here meanwhile: what comes is older than that
      return undefined;
    } catch (error) {
      stream.close();
      inode.wasRead = false;
      // The kernel's next LOOKUP has to find the new version.
      if (error instanceof Failure && error.kind === "stale") await names.revalidate(inode);
      throw error;
    }
  }
}

function checkUnwritten(inode: Inode): void {
  if (inode.upload === undefined && !inode.local) return;
  throw new PosixFailure("EPERM", "file is open for writing");
}

function checkThere({ object, path }: Inode): void {
  if (object === undefined) throw new Failure("stale", `${path} has gone`);
  if (object.archived) throw new Failure("denied", `${path} is in the archive`);
}
