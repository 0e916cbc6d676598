/**
 * The first answer that `find` gives, now or after a change; rejects when the signal aborts. What
 * `onChange` returns is disposed in any case.
 */
export function untilFound<R>(
  find: () => R | undefined,
  onChange: (listener: () => void) => Disposable,
  signal: AbortSignal,
): Promise<R> {
  const { promise, resolve, reject } = Promise.withResolvers<R>();
  const look = () => {
    const found = find();
    if (found !== undefined) resolve(found);
  };
  const abort = () => reject(signal.reason);
  const subscription = onChange(look);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  else look();
  return promise.finally(() => {
    subscription[Symbol.dispose]();
    signal.removeEventListener("abort", abort);
  });
}
