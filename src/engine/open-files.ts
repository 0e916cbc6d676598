import type { FileOwners } from "./file-owners.ts";
import type { Inode } from "./inode.ts";
import type { LastClose } from "./last-close.ts";
import { PosixFailure } from "./posix-failure.ts";
import type { ReadStream } from "./read-stream.ts";
import type { DirectoryStream, Place } from "./directory-stream.ts";
import type { Upload } from "./upload.ts";

export interface Reader {
  readonly do: "read";
  readonly inode: Inode;
  readonly stream: ReadStream;
  /**
   * The handle was opened for writing, too, which an object can't be. Without the page cache the
   * kernel refuses a shared mmap(2), whose stores would be lost and be shown to all readers.
   */
  readonly bypassesCache: boolean;
}

export interface Writer {
  readonly do: "write";
  readonly inode: Inode;
  readonly upload: Upload;
  readonly openedByPid: number;
  readonly owners: FileOwners;
  /** Its opener has closed the file, and nothing was written since. */
  isClosed: boolean;
  readonly lastClose: LastClose;
  /** The kernel has sent RELEASE: the last descriptor is closed, and the upload ends by itself. */
  isReleased: boolean;
}

export interface DirectoryReader {
  readonly do: "list";
  readonly inode: Inode;
  stream: DirectoryStream | undefined;
  /** Where a former engine was in it, until it is read on. */
  place?: Place | undefined;
}

export type OpenFile = Reader | Writer | DirectoryReader;

/** How a handle was opened, as the kernel has to know it. */
export type OpenedAs = "read" | "read without cache" | "write" | "list";

/** Handles: numbers that the kernel holds for what is open here. Never used twice. */
export class OpenFiles {
  readonly #files = new Map<number, OpenFile>();
  readonly #acknowledged = new Set<number>();
  #next: number;

  constructor(next = 1) {
    this.#next = next;
  }

  get next(): number {
    return this.#next;
  }

  /** What openers know of. */
  *acknowledged(): Generator<[handle: number, file: OpenFile], void, undefined> {
    for (const [handle, file] of this.#files) {
      if (this.#acknowledged.has(handle)) yield [handle, file];
    }
  }

  /** The opener is about to be told, or was by an earlier engine. */
  acknowledge(handle: number): void {
    this.#acknowledged.add(handle);
  }

  get writers(): Writer[] {
    return [...this.#files.values()].filter((file) => file.do === "write");
  }

  add(file: OpenFile): number {
    const handle = this.reserve();
    this.#files.set(handle, file);
    return handle;
  }

  /** A number for a file that needs to know it, to be set in the same turn. */
  reserve(): number {
    return this.#next++;
  }

  set(handle: number, file: OpenFile): void {
    this.#files.set(handle, file);
  }

  reader(handle: number): Reader {
    const file = this.#files.get(handle);
    if (file?.do !== "read") throw new PosixFailure("EBADF", "not open for reading");
    return file;
  }

  writer(handle: number): Writer {
    const file = this.#files.get(handle);
    if (file?.do !== "write") throw new PosixFailure("EBADF", "not open for writing");
    return file;
  }

  /** The writer whose upload keeps the inode from being opened. */
  writerOf({ upload }: Inode): Writer | undefined {
    if (upload === undefined) return undefined;
    return this.writers.find((writer) => writer.upload === upload);
  }

  directory(handle: number): DirectoryReader {
    const file = this.#files.get(handle);
    if (file?.do !== "list") throw new PosixFailure("EBADF", "not an open directory");
    return file;
  }

  /** Undefined when the handle is not open. */
  openedAs(handle: number): OpenedAs | undefined {
    const file = this.#files.get(handle);
    return file?.do === "read" && file.bypassesCache ? "read without cache" : file?.do;
  }

  find(handle: number): OpenFile | undefined {
    return this.#files.get(handle);
  }

  remove(handle: number): OpenFile | undefined {
    const file = this.#files.get(handle);
    this.#files.delete(handle);
    this.#acknowledged.delete(handle);
    return file;
  }
}
