import { join } from "node:path";
import { run } from "../run.ts";

/** For a file of 1 GiB: it is in the page cache of both sides, once or twice. */
export const BULK_GIB = 4;
/** For everything that moves less. */
export const SMALL_GIB = 1;
const GIB = 2 ** 30;
const TOUCH = join(import.meta.dirname, "touch-memory.ts");

/**
 * Touches memory and lets go of it. The host of a virtual machine takes free memory away from it
 * and gives it back page by page, at ten times the price of a page that is there: whoever comes
 * first after a pause would pay that. What was let go last is what the kernel uses first.
 */
export async function warmMemory(gib: number): Promise<void> {
  const bytes = Math.min(gib * GIB, process.availableMemory() / 2);
  await run(process.execPath, [TOUCH, String(Math.floor(bytes))]);
}
