import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "../base/failure.ts";

export interface RetryPolicy {
  /** How often an operation is tried that S3 refuses or breaks. Outages are limited by time. */
  readonly attemptsMax: number;
  /** The time that an operation may lose to an outage before it is given up. */
  readonly windowMs: number;
}

/** The rest of an operation's time. Waiting for a connection and transfers cost nothing. */
export interface RetryBudget {
  /** The operation has got further than ever before: its time starts anew. */
  renew(): void;
}

const FIRST_PAUSE_MS = 50;
const PAUSE_MAX_MS = 2_000;

/**
 * Tries again what fails as `remote`, with growing, jittered pauses, within both bounds. The
 * budget is charged with these pauses and with the time in which the endpoint gave no sign of
 * life. A first failure alone never exhausts it, since the endpoint may be back by then.
 */
export async function retry<T>(
  policy: RetryPolicy,
  signal: AbortSignal,
  attempt: (budget: RetryBudget) => Promise<T>,
  pause: (pauseMs: number, signal: AbortSignal) => Promise<void> = pauseFor,
): Promise<T> {
  let lostMs = 0;
  let failures = 0;
  let faults = 0;
  let wasStale = false;
  const renew = () => {
    lostMs = 0;
    failures = 0;
  };
  for (;;) {
    try {
      return await attempt({ renew });
    } catch (error) {
      signal.throwIfAborted();
      if (!isRetryable(error)) throw error;
      if (error instanceof StaleConnectionFailure && !wasStale) {
        wasStale = true; // the next connection is a new one: no reason to wait
        continue;
      }
      wasStale = false;
      failures += 1;
      if (error instanceof AwayFailure) lostMs += error.lostMs;
      else faults += 1;
      const pauseMs = pauseAfter(failures);
      const tooLate = failures > 1 && lostMs + pauseMs > policy.windowMs;
      if (faults >= policy.attemptsMax || tooLate) throw error;
      await pause(pauseMs, signal);
      lostMs += pauseMs;
    }
  }
}

/** The endpoint can't be reached, or asks us to come later: an outage, which ends by itself. */
export class AwayFailure extends Failure {
  /** How long the endpoint gave no sign of life; 0 if it answered. */
  readonly lostMs: number;

  constructor(message: string, cause?: unknown, lostMs = 0) {
    super("remote", message, cause);
    this.lostMs = lostMs;
  }
}

/**
 * A kept connection that was closed at the moment of its next use. The endpoint is there; whether
 * it has executed the request is not known.
 */
export class StaleConnectionFailure extends AwayFailure {}

/** An answer below 500 that is worth another try. The request was not executed. */
export class RefusedFailure extends Failure {
  constructor(message: string) {
    super("remote", message);
  }
}

/** A remote Failure that will be the same next time: not worth another try. */
export class PermanentFailure extends Failure {
  constructor(message: string) {
    super("remote", message);
  }
}

/** A refused HEAD: its answer has no document that says why. */
export class UnexplainedFailure extends PermanentFailure {}

function isRetryable(error: unknown): boolean {
  if (error instanceof PermanentFailure) return false;
  return error instanceof Failure && error.kind === "remote";
}

async function pauseFor(pauseMs: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(pauseMs, undefined, { signal });
  } catch (error) {
    signal.throwIfAborted(); // with its own reason, where sleep() says no more than AbortError
    throw error;
  }
}

/** Jitter over the upper half: a thousand clients must not come back in the same instant. */
function pauseAfter(failures: number): number {
  const fullMs = Math.min(PAUSE_MAX_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
  return fullMs * (0.5 + Math.random() / 2);
}
