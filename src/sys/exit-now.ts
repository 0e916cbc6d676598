import { bind } from "./libc.ts";

const exit = bind("void _exit(int status)");

/**
 * Ends the process without waiting for threads. Node's own exit joins its thread pool, and a
 * thread inside read(2) on a live FUSE connection comes back only with the next request.
 */
export function exitNow(status: number): void {
  exit(status);
}
