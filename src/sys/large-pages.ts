import { Buffer } from "node:buffer";
import koffi from "koffi";
import { bind } from "./libc.ts";

const LARGE_PAGE_BYTES = 2 << 20;
const MADV_HUGEPAGE = 14;

const madvise = bind("int madvise(void *at, size_t size, int advice)");

/**
 * Memory that is not zeroed, in pages of 2 MiB if it is large enough for one: it costs a page fault
 * for each of them instead of 512, and so many pages less to look up when bytes are copied.
 */
export function allocateLarge(sizeBytes: number): Buffer {
  if (sizeBytes < LARGE_PAGE_BYTES) return Buffer.allocUnsafeSlow(sizeBytes);
  // What lies before and behind the aligned part is never touched, so it is only address space.
  const memory = Buffer.allocUnsafeSlow(sizeBytes + LARGE_PAGE_BYTES);
  const past = Number(koffi.address(memory) % BigInt(LARGE_PAGE_BYTES));
  const start = (LARGE_PAGE_BYTES - past) % LARGE_PAGE_BYTES;
  const aligned = memory.subarray(start, start + sizeBytes);
  madvise(aligned, sizeBytes, MADV_HUGEPAGE); // refused: small pages are as good, only slower
  return aligned;
}
