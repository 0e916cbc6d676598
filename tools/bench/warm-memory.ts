import { join } from "node:path";
import { run } from "../run.ts";

/** For a file of 1 GiB: it is in the page cache of both sides, once or twice. */
export const BULK_GIB = 4;
/** For everything that moves less. */
export const SMALL_GIB = 1;
const GIB = 2 ** 30;
const TOUCH = join(import.meta.dirname, "touch-memory.ts");

/**
 * Touches memory and lets go of it. The host of a virtual machine may take free memory away from it
 * and gives it back page by page: 4 GiB took 11 s to touch the first time and 0.7 s the second,
 * while a build ran beside it. Whoever comes first after a pause would pay that. Reads that follow
 * each other at once are as fast without it.
 */
export async function warmMemory(gib: number): Promise<void> {
  const bytes = Math.min(gib * GIB, process.availableMemory() / 2);
  await run(process.execPath, [TOUCH, String(Math.floor(bytes))]);
}
