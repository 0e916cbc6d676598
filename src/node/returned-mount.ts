import { closeSync, fstatSync, readFileSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import { isSealedMemory } from "../sys/memfd.ts";
import { MOUNT_FDS } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";

/** 10:229, the number of /dev/fuse on every Linux. */
const FUSE_DEVICE = (10 << 8) | 229;

/**
 * The descriptors that a mounter says belong to a mount, looked at: they come from a pod that may
 * be hostile. What is not as it should be is refused, and all of them are closed.
 */
export function checkReturned(fds: readonly number[], device: string): MountFds {
  try {
    const [fuse, slots, journal, spool] = fds;
    if (fuse === undefined || slots === undefined || journal === undefined) throw wrongNumber(fds);
    if (spool === undefined || fds.length !== MOUNT_FDS.length) throw wrongNumber(fds);
    checkConnection(fuse, device);
    for (const memory of [slots, journal, spool]) {
      if (!isSealedMemory(memory)) throw new Failure("denied", "what came back is no such memory");
    }
    return { fuse, slots, journal, spool };
  } catch (error) {
    for (const fd of fds) closeSync(fd);
    throw error;
  }
}

function wrongNumber(fds: readonly number[]): Failure {
  return new Failure("denied", `${fds.length} descriptors came back, not ${MOUNT_FDS.length}`);
}

/** Of that very mount, where the kernel tells; of some FUSE mount of that pod where it does not. */
function checkConnection(fd: number, device: string): void {
  const stat = fstatSync(fd);
  if (!stat.isCharacterDevice() || stat.rdev !== FUSE_DEVICE) {
    throw new Failure("denied", "what came back is no FUSE connection");
  }
  const told = /^fuse_connection:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"));
  const [, minor] = device.split(":");
  if (told !== null && told[1] !== minor) {
    throw new Failure("denied", `connection ${told[1]} came back, not ${minor}`);
  }
}
