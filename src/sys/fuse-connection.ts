import { closeSync, constants, openSync, writeSync } from "node:fs";
import { bind, checked } from "./libc.ts";

// The same numbers on every architecture that Linux has had since these calls came.
const SYS_FSOPEN = 430;
const SYS_FSCONFIG = 431;
const SYS_FSMOUNT = 432;
const CLOEXEC = 0x1;
const FSCONFIG_CMD_CREATE = 6;

const fsopen = bind("long syscall(long number, const char *type, unsigned int flags)");
const fsconfig = bind(
  "long syscall(long number, int fd, unsigned int command, const char *key, const void *value, " +
    "int auxiliary)",
);
const fsmount = bind("long syscall(long number, int fd, unsigned int flags, unsigned int attr)");

/**
 * The handle to end a FUSE connection by force. Taken while the mount is there: its number is given
 * to another mount as soon as it has gone, and this handle then does nothing instead.
 */
export class FuseConnection implements Disposable {
  #abortFd: number;

  /** `device` as mountinfo has it: the minor number names the connection. */
  constructor(device: string) {
    const [, minor = ""] = device.split(":");
    const control = mountControl();
    try {
      this.#abortFd = openSync(`/proc/self/fd/${control}/${minor}/abort`, constants.O_WRONLY);
    } finally {
      closeSync(control);
    }
  }

  /** Every request on it fails from now on; whoever waits for one is released. */
  abort(): void {
    if (this.#abortFd !== -1) writeSync(this.#abortFd, "1");
  }

  [Symbol.dispose](): void {
    if (this.#abortFd !== -1) closeSync(this.#abortFd);
    this.#abortFd = -1; // its number may be another's by now
  }
}

/** The kernel's list of connections, at no path: a container does not see the host's mount. */
function mountControl(): number {
  const context = checked("fsopen", fsopen(SYS_FSOPEN, "fusectl", CLOEXEC), "fusectl");
  try {
    const made = fsconfig(SYS_FSCONFIG, context, FSCONFIG_CMD_CREATE, null, null, 0);
    checked("fsconfig", made, "fusectl");
    return checked("fsmount", fsmount(SYS_FSMOUNT, context, CLOEXEC, 0), "fusectl");
  } finally {
    closeSync(context);
  }
}
