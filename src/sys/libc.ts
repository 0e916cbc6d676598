import { getSystemErrorName } from "node:util";
import koffi from "koffi";

const libc = koffi.load("libc.so.6");

/** A system call that failed, in the shape of Node's own: `code` is the errno's name. */
export class SystemError extends Error {
  override readonly name = "SystemError";
  readonly errno: number;
  readonly code: string;

  constructor(call: string, errno: number, subject = "") {
    const code = getSystemErrorName(-errno);
    super(`${call}${subject === "" ? "" : ` ${subject}`}: ${code}`);
    this.errno = errno;
    this.code = code;
  }
}

/**
 * Binds one C function by its prototype, e.g. `int umount2(const char *target, int flags)`.
 * koffi knows no ssize_t: write `long`. Calls are synchronous: short system calls only.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- koffi's own type: C has no shape here
export function bind(prototype: string): (...args: any[]) => any {
  return libc.func(prototype);
}

/** The same call in a thread of the pool, for one that may take long. Its errno is lost. */
export function inThread(call: ReturnType<typeof bind>, ...args: unknown[]): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  (call as unknown as ThreadCall).async(...args, (error: Error | null, result: number) => {
    if (error === null) resolve(result);
    else reject(error);
  });
  return promise;
}

interface ThreadCall {
  async(...argsAndCallback: unknown[]): void;
}

export const O_CLOEXEC = 0o2000000; // not among Node's constants

export const fcntl = bind("int fcntl(int fd, int command, int argument)");

/** errno is read before anything else can change it: call this directly around the C call. */
export function checked(call: string, result: number, subject?: string): number {
  if (result !== -1) return result;
  throw new SystemError(call, koffi.errno(), subject);
}
