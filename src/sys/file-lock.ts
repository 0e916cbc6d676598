import { bind, checked, SystemError } from "./libc.ts";

const LOCK_EX_NB = 0x2 | 0x4;

const flock = bind("int flock(int fd, int operation)");

/** Held until the descriptor is closed, so at the latest when the process ends, however it does. */
export function tryLockFile(fd: number): boolean {
  try {
    checked("flock", flock(fd, LOCK_EX_NB));
    return true;
  } catch (error) {
    if (error instanceof SystemError && error.code === "EAGAIN") return false;
    throw error;
  }
}
