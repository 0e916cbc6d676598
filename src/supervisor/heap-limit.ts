const MIB = 1 << 20;
const OLD_SHARE = 0.35;
const OLD_BYTES_MIN = 40 * MIB;
/** Of the container, however often the limit was raised. */
const RAISED_SHARE = 0.8;
/** Below this size a container has no room for as many new objects as V8 likes to collect. */
const LARGE_CONTAINER_BYTES = 1024 * MIB;
/** Of the container, for new objects: V8 takes up to three times as much, 48 MiB by default. */
const YOUNG_SHARE = 1 / 128;

/** How large the heap of an engine in such a container may be, new objects not counted. */
export function heapLimitOf(containerBytes: number): number {
  return Math.max(OLD_BYTES_MIN, Math.floor((containerBytes * OLD_SHARE) / MIB) * MIB);
}

/**
 * Node's flags for an engine. V8 would let the heap grow to 262 MiB however small the container
 * is, and collect garbage too late. With a limit it collects in time. `factor`: raises the limit
 * for an engine that has to read more names than it may keep.
 */
export function heapFlags(containerBytes: number | undefined, factor = 1): string[] {
  if (containerBytes === undefined) return [];
  const largestBytes = Math.floor((containerBytes * RAISED_SHARE) / MIB) * MIB;
  const oldBytes = Math.min(heapLimitOf(containerBytes) * factor, largestBytes);
  const old = `--max-old-space-size=${oldBytes / MIB}`;
  if (containerBytes >= LARGE_CONTAINER_BYTES) return [old];
  const youngMib = 2 ** Math.floor(Math.log2((containerBytes * YOUNG_SHARE) / MIB));
  return [old, `--max-semi-space-size=${Math.max(1, youngMib)}`];
}
