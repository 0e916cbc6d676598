import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import { KeyTooLongFailure } from "../s3/s3-error.ts";

/** Answers that POSIX tells apart and a FailureKind does not. */
const KIND = {
  EBADF: "invalid",
  EFBIG: "refused",
  EINTR: "timeout",
  EINVAL: "invalid",
  EIO: "remote",
  EISDIR: "conflict",
  ENAMETOOLONG: "invalid",
  ENOMEM: "busy",
  ENOSYS: "refused",
  ENOTDIR: "conflict",
  ENOTEMPTY: "conflict",
  EPERM: "refused",
  EROFS: "refused",
} as const satisfies Record<string, FailureKind>;

export type PosixCode = keyof typeof KIND;

export function isPosixCode(text: string): text is PosixCode {
  return Object.hasOwn(KIND, text);
}

/** A Failure of a file operation whose exact errno is part of the documented semantics. */
export class PosixFailure extends Failure {
  readonly code: PosixCode;

  constructor(code: PosixCode, message: string) {
    super(KIND[code], message);
    this.code = code;
  }
}

/** The caller left before anything was done: it may ask the same again. */
export function isInterruption(error: unknown): boolean {
  return error instanceof PosixFailure && error.code === "EINTR";
}

/** The errno that a failed upload leaves in the journal, for calls to the next engine. */
export function uploadCodeOf(failure: unknown): PosixCode {
  if (failure instanceof PosixFailure) return failure.code;
  if (failure instanceof KeyTooLongFailure) return "ENAMETOOLONG";
  return failure instanceof Failure && failure.kind === "invalid" ? "EINVAL" : "EIO";
}
