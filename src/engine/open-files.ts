import type { Inode } from "./inode.ts";
import { PosixFailure } from "./posix-failure.ts";
import type { ReadStream } from "./read-stream.ts";
import type { DirectoryStream } from "./directory-stream.ts";
import type { Upload } from "./upload.ts";

export interface Reader {
  readonly do: "read";
  readonly inode: Inode;
  readonly stream: ReadStream;
}

export interface Writer {
  readonly do: "write";
  readonly inode: Inode;
  readonly upload: Upload;
  readonly openedByPid: number;
}

export interface DirectoryReader {
  readonly do: "list";
  readonly inode: Inode;
  stream: DirectoryStream | undefined;
}

type OpenFile = Reader | Writer | DirectoryReader;

/** Handles: numbers that the kernel holds for what is open here. Never used twice. */
export class OpenFiles {
  readonly #files = new Map<number, OpenFile>();
  #next = 1;

  get writers(): Writer[] {
    return [...this.#files.values()].filter((file) => file.do === "write");
  }

  get size(): number {
    return this.#files.size;
  }

  add(file: OpenFile): number {
    const handle = this.#next++;
    this.#files.set(handle, file);
    return handle;
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

  directory(handle: number): DirectoryReader {
    const file = this.#files.get(handle);
    if (file?.do !== "list") throw new PosixFailure("EBADF", "not an open directory");
    return file;
  }

  find(handle: number): OpenFile | undefined {
    return this.#files.get(handle);
  }

  remove(handle: number): OpenFile | undefined {
    const file = this.#files.get(handle);
    this.#files.delete(handle);
    return file;
  }
}
