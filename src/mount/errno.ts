import { constants } from "node:os";
import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import type { PosixCode } from "../engine/posix-failure.ts";
import { KeyTooLongFailure } from "../s3/s3-error.ts";

const { errno } = constants;

const ERRNO = {
  invalid: errno.EINVAL,
  absent: errno.ENOENT,
  conflict: errno.EEXIST,
  denied: errno.EACCES,
  refused: errno.EPERM,
  stale: errno.ESTALE,
  busy: errno.EBUSY,
  timeout: errno.EIO,
  remote: errno.EIO,
} as const satisfies Record<FailureKind, number>;

const POSIX_ERRNO = {
  EBADF: errno.EBADF,
  EFBIG: errno.EFBIG,
  EINTR: errno.EINTR,
  EINVAL: errno.EINVAL,
  EIO: errno.EIO,
  EISDIR: errno.EISDIR,
  ENAMETOOLONG: errno.ENAMETOOLONG,
  ENOMEM: errno.ENOMEM,
  ENOSYS: errno.ENOSYS,
  ENOTDIR: errno.ENOTDIR,
  ENOTEMPTY: errno.ENOTEMPTY,
  EPERM: errno.EPERM,
  EROFS: errno.EROFS,
} as const satisfies Record<PosixCode, number>;

/** The one place where a Failure gets its number. Undefined: not a Failure, so a bug. */
export function errnoOf(error: unknown): number | undefined {
  if (error instanceof PosixFailure) return POSIX_ERRNO[error.code];
  if (error instanceof KeyTooLongFailure) return errno.ENAMETOOLONG;
  if (error instanceof Failure) return ERRNO[error.kind];
  if (error instanceof DOMException && error.name === "TimeoutError") return errno.EIO;
  return undefined;
}
