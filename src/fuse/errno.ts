import { constants } from "node:os";

const { EAGAIN, EINTR, EINVAL, EIO, ENOENT, ENOSYS, EPERM, EPROTO, EILSEQ } = constants.errno;

/** What the protocol itself answers; everything else comes from the file system's own table. */
export const ERRNO = { EAGAIN, EILSEQ, EINTR, EINVAL, EIO, ENOENT, ENOSYS, EPERM, EPROTO } as const;

/** Thrown by a decoder: the request can't be served as it is, and this is its answer. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
  readonly errno: number;

  constructor(errno: number, message: string) {
    super(message);
    this.errno = errno;
  }
}
