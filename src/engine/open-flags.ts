import { PosixFailure } from "./posix-failure.ts";

/** Linux's values on every architecture we run on; node:constants lacks some of them. */
const O_ACCMODE = 0o3;
const O_WRONLY = 0o1;
const O_RDWR = 0o2;
const O_TRUNC = 0o1000;
const O_DSYNC = 0o10000;
const O_DIRECT = 0o40000;

export interface OpenFlags {
  readonly access: "read" | "write" | "both";
  readonly truncates: boolean;
  /** The caller wants to see S3, not what we remember. */
  readonly direct: boolean;
}

/** Refuses what can't be kept: bytes are durable at close, not at each write. */
export function parseOpenFlags(flags: number): OpenFlags {
  if ((flags & O_DSYNC) !== 0) throw new PosixFailure("EINVAL", "O_SYNC can't be kept on S3");
  const mode = flags & O_ACCMODE;
  return {
    access: mode === O_WRONLY ? "write" : mode === O_RDWR ? "both" : "read",
    truncates: (flags & O_TRUNC) !== 0,
    direct: (flags & O_DIRECT) !== 0,
  };
}
