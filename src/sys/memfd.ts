import { closeSync, fstatSync, ftruncateSync } from "node:fs";
import { Buffer } from "node:buffer";
import koffi from "koffi";
import { bind, checked, fcntl, SystemError } from "./libc.ts";

const MFD_CLOEXEC = 0x1;
const MFD_ALLOW_SEALING = 0x2;
const F_ADD_SEALS = 1033;
const F_GET_SEALS = 1034;
const F_SEAL_SHRINK = 0x2;
const PROT_READ_WRITE = 0x1 | 0x2;
const MAP_SHARED = 0x1;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

const FALLOC_FL_KEEP_SIZE = 0x1;
const FALLOC_FL_PUNCH_HOLE = 0x2;

const memfdCreate = bind("int memfd_create(const char *name, unsigned int flags)");
const fallocate = bind("int fallocate(int fd, int mode, long offset, long size)");
const mmap = bind("void *mmap(void *at, size_t size, int prot, int flags, int fd, long offset)");

/** Memory with a descriptor: it survives the process as long as somebody else holds a copy. */
export function createMemfd(name: string, sizeBytes: number): number {
  const fd = checked("memfd_create", memfdCreate(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), name);
  try {
    ftruncateSync(fd, sizeBytes);
    // A holder that shrinks it would make every other one die of SIGBUS.
    checked("fcntl F_ADD_SEALS", fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), name);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** A memfd that nobody can shrink, as createMemfd makes them. */
export function isSealedMemory(fd: number): boolean {
  const seals: number = fcntl(fd, F_GET_SEALS, 0); // -1 for what is no memfd
  return seals !== -1 && (seals & F_SEAL_SHRINK) !== 0;
}

/**
 * A memfd whose pieces are mapped when they are first looked at. All of it at once would be free
 * for the kernel, but V8 takes it for memory in use and collects garbage. With a chunk size, one
 * mapping serves all pieces of a chunk, and no piece may go beyond it: a page that is mapped twice
 * would count twice. Without one, each piece is mapped from its own start, which is a page's.
 */
export class LazyMemory {
  readonly length: number;
  readonly #fd: number;
  readonly #chunkBytes: number | undefined;
  readonly #pieces = new Map<number, Buffer>();

  constructor(fd: number, sizeBytes: number, chunkBytes?: number) {
    if (fstatSync(fd).size < sizeBytes) ftruncateSync(fd, sizeBytes);
    this.#fd = fd;
    this.#chunkBytes = chunkBytes;
    this.length = fstatSync(fd).size;
  }

  subarray(start: number, end: number): Buffer {
    if (this.#chunkBytes === undefined)
      return this.#piece(start, end - start).subarray(0, end - start);
    const chunkStart = start - (start % this.#chunkBytes);
    // An earlier process may have used larger chunks: a piece across two of ours is mapped alone.
    if (end - chunkStart > this.#chunkBytes) {
      return this.#piece(start, end - start).subarray(0, end - start);
    }
    const chunk = this.#piece(chunkStart, Math.min(this.#chunkBytes, this.length - chunkStart));
    return chunk.subarray(start - chunkStart, end - chunkStart);
  }

  /** The bytes read as zero from now on, and cost nothing. */
  readonly release = (offset: number, sizeBytes: number): void => {
    const mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
    checked("fallocate", fallocate(this.#fd, mode, offset, sizeBytes), `memfd ${this.#fd}`);
  };

  #piece(start: number, sizeBytes: number): Buffer {
    const known = this.#pieces.get(start);
    if (known !== undefined && known.length >= sizeBytes) return known;
    const piece = map(this.#fd, start, sizeBytes);
    this.#pieces.set(start, piece);
    return piece;
  }
}

function map(fd: number, offset: number, sizeBytes: number): Buffer {
  const address = mmap(null, sizeBytes, PROT_READ_WRITE, MAP_SHARED, fd, offset);
  if (BigInt.asUintN(64, koffi.address(address)) === MAP_FAILED) {
    throw new SystemError("mmap", koffi.errno(), `memfd ${fd}`);
  }
  return Buffer.from(koffi.view(address, sizeBytes));
}
