import { RefusedFailure, retry } from "./retry.ts";
import type { RetryPolicy } from "./retry.ts";

export interface OnceOnly<T> {
  readonly send: () => Promise<T>;
  /** The result if the request was executed, as far as can be seen now. */
  readonly settle: () => Promise<T | undefined>;
}

/**
 * Retries a request that must not be executed twice. After a failure that leaves open whether S3
 * has executed it, S3 is asked before it is sent again.
 */
export async function retryUnlessDone<T>(
  policy: RetryPolicy,
  signal: AbortSignal,
  { send, settle }: OnceOnly<T>,
): Promise<T> {
  let isUnsure = false;
  return retry(policy, signal, async () => {
    const done = isUnsure ? await settle() : undefined;
    if (done !== undefined) return done;
    try {
      return await send();
    } catch (error) {
      isUnsure ||= !(error instanceof RefusedFailure);
      throw error;
    }
  });
}
