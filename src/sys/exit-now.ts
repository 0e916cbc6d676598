import { bind } from "./libc.ts";

const exit = bind("void _exit(int status)");

/**
 * Ends the process without waiting for threads. Node's own exit joins its thread pool, and a
 * thread inside write(2) on a live FUSE connection may wait there for an answer of ours.
 */
export function exitNow(status: number): void {
  exit(status);
}
