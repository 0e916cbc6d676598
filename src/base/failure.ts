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
