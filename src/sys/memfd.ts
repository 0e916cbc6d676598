import { closeSync, fstatSync, ftruncateSync } from "node:fs";
import { Buffer } from "node:buffer";
import koffi from "koffi";
import { bind, checked, SystemError } from "./libc.ts";

const MFD_CLOEXEC = 0x1;
const MFD_ALLOW_SEALING = 0x2;
const F_ADD_SEALS = 1033;
const F_SEAL_SHRINK = 0x2;
const PROT_READ_WRITE = 0x1 | 0x2;
const MAP_SHARED = 0x1;
const MAP_POPULATE = 0x8000;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

const memfdCreate = bind("int memfd_create(const char *name, unsigned int flags)");
const fcntl = bind("int fcntl(int fd, int command, int argument)");
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

/**
 * Maps the memfd's first bytes, grown if it is smaller. Populated now: a page fault inside the
 * kernel's copy, with memory short, would cost the request. Mapped until the process ends.
 */
export function mapMemfd(fd: number, sizeBytes: number): Buffer {
  if (fstatSync(fd).size < sizeBytes) ftruncateSync(fd, sizeBytes);
  const address = mmap(null, sizeBytes, PROT_READ_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (BigInt.asUintN(64, koffi.address(address)) === MAP_FAILED) {
    throw new SystemError("mmap", koffi.errno(), `memfd ${fd}`);
  }
  return Buffer.from(koffi.view(address, sizeBytes));
}
