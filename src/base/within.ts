/**
 * The work's result, or the error that `late` makes when the signal aborts first. The work itself
 * goes on: others may wait for it, and its failure then is theirs.
 */
export async function within<T>(
  work: Promise<T>,
  signal: AbortSignal,
  late: (reason: unknown) => Error,
): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(late(signal.reason));
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([aborted, work]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
