import { fstatSync, readFileSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import { isSealedMemory } from "../sys/memfd.ts";
import { MOUNT_FDS, mountFdsOf } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import { drop } from "../sys/unix-socket.ts";

/** 10:229, the number of /dev/fuse on every Linux. */
const FUSE_DEVICE = (10 << 8) | 229;

/**
 * The descriptors that a mounter says belong to a mount, looked at: they come from a pod that may
 * be hostile. What is not as it should be is refused, and all of them are closed.
 */
export function checkReturned(fds: readonly number[], device: string): MountFds {
  try {
    const returned = mountFdsOf(fds);
    if (returned === undefined) {
      const message = `${fds.length} descriptors came back, not ${MOUNT_FDS.length}`;
      throw new Failure("denied", message);
    }
    const { fuse, ...memory } = returned;
    checkConnection(fuse, device);
    if (!Object.values(memory).every(isSealedMemory)) {
      throw new Failure("denied", "what came back is no such memory");
    }
    return returned;
  } catch (error) {
    drop(fds);
    throw error;
  }
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
