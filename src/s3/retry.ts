import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "../base/failure.ts";

export interface RetryPolicy {
  /** How often what S3 refuses or breaks is tried. An endpoint that is away counts by time only. */
  readonly attemptsMax: number;
  /** No new attempt begins after this; the one under way may end. */
  readonly windowMs: number;
}

const FIRST_PAUSE_MS = 50;
const PAUSE_MAX_MS = 2_000;

/** Tries again what fails as `remote`, with growing, jittered pauses, within both bounds. */
export async function retry<T>(
  policy: RetryPolicy,
  signal: AbortSignal,
  attempt: () => Promise<T>,
): Promise<T> {
  const endMs = performance.now() + policy.windowMs;
  let faults = 0;
  for (let attemptNumber = 1; ; attemptNumber++) {
    try {
      return await attempt();
    } catch (error) {
      signal.throwIfAborted();
      if (!isRetryable(error)) throw error;
      if (!(error instanceof AwayFailure)) faults += 1;
      const pauseMs = pauseAfter(attemptNumber);
      const tooLate = performance.now() + pauseMs > endMs;
      if (faults >= policy.attemptsMax || tooLate) throw error;
      await sleep(pauseMs, undefined, { signal });
    }
  }
}

/** The endpoint can't be reached, or asks us to come later: an outage, which ends by itself. */
export class AwayFailure extends Failure {
  constructor(message: string, cause?: unknown) {
    super("remote", message, cause);
  }
}

/** A remote Failure that will be the same next time: not worth another try. */
export class PermanentFailure extends Failure {
  constructor(message: string) {
    super("remote", message);
  }
}

function isRetryable(error: unknown): boolean {
  if (error instanceof PermanentFailure) return false;
  return error instanceof Failure && error.kind === "remote";
}

/** Jitter over the upper half: a thousand clients must not come back in the same instant. */
function pauseAfter(attemptNumber: number): number {
  const fullMs = Math.min(PAUSE_MAX_MS, FIRST_PAUSE_MS * 2 ** (attemptNumber - 1));
  return fullMs * (0.5 + Math.random() / 2);
}
