/**
 * A modification time in the precision that all parts of S3 have in common. A HEAD tells whole
 * seconds; listings of some servers have milliseconds, and `mtime` must not depend on which one was
 * asked.
 */
export function modificationTimeOf(timeMs: number): number {
  return Math.floor(timeMs / 1000) * 1000;
}

/** Reads a LastModified of a listing or a Last-Modified header; 0 if it is no time. */
export function readModificationTime(text: string): number {
  return modificationTimeOf(Date.parse(text) || 0);
}
