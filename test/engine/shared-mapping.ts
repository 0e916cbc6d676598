import { bind } from "../../src/sys/libc.ts";

const PAGE_BYTES = 4096;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

const mmap = bind(
  "uintptr_t mmap(void *at, size_t size, int prot, int flags, int fd, long offset)",
);
const munmap = bind("int munmap(uintptr_t at, size_t size)");

/** Whether a file can be mapped so that stores change it. Nothing is stored. */
export function isMappable(fd: number): boolean {
  const at = BigInt(mmap(null, PAGE_BYTES, PROT_READ_WRITE, MAP_SHARED, fd, 0) as number);
  if (at === MAP_FAILED) return false;
  munmap(at, PAGE_BYTES);
  return true;
}
