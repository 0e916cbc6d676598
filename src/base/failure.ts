/** Every expected way to fail. The edges translate a kind; nobody ever parses a message. */
export const FAILURE_KINDS = [
  "invalid", // the caller's input is wrong, and will be wrong again
  "absent",
  "conflict", // it exists, but not as asked
  "denied",
  "refused", // understood, and not offered: a policy or a missing feature
  "stale", // the object changed under a reader
  "busy", // the same operation is under way: come back
  "timeout", // the deadline passed; the work may go on
  "remote", // S3, the API server or the network: come back
] as const;
export type FailureKind = (typeof FAILURE_KINDS)[number];

export function isFailureKind(value: unknown): value is FailureKind {
  return FAILURE_KINDS.some((kind) => kind === value);
}

/** An operating error: expected, handled, reported. A bug is not a Failure; it is an assertion. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

/** Not a fault: work that is done in steps, of which another one is left. */
export class UnfinishedFailure extends Failure {
  constructor(message: string) {
    super("busy", message);
  }
}

/** Another attempt would fail too, for a long time: the next one is due after `retryAfterMs`. */
export class RetryLaterFailure extends Failure {
  readonly retryAfterMs: number;

  constructor(kind: FailureKind, message: string, retryAfterMs: number) {
    super(kind, message);
    this.retryAfterMs = retryAfterMs;
  }
}
