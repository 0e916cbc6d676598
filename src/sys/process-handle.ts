import { closeSync } from "node:fs";
import { constants } from "node:os";
import { SystemError, bind, checked } from "./libc.ts";
import { POLLIN, poll } from "./poll.ts";

// The same numbers on every architecture that Linux has had since these calls came.
const SYS_PIDFD_SEND_SIGNAL = 424;
const SYS_PIDFD_OPEN = 434;

const pidfdOpen = bind("long syscall(long number, int pid, unsigned int flags)");
const pidfdSendSignal = bind(
  "long syscall(long number, int fd, int signal, const void *info, unsigned int flags)",
);

/** One very process: its number may be given to another, this handle never means another. */
export class ProcessHandle implements Disposable {
  #fd: number;

  constructor(pid: number) {
    this.#fd = checked("pidfd_open", pidfdOpen(SYS_PIDFD_OPEN, pid, 0), String(pid));
  }

  /**
   * Kills it and waits for its end: true when it is dead for certain. The first process of a
   * container ends only after all others there have.
   */
  async kill(withinMs: number): Promise<boolean> {
    try {
      const sent = pidfdSendSignal(
        SYS_PIDFD_SEND_SIGNAL,
        this.#fd,
        constants.signals.SIGKILL,
        null,
        0,
      );
      checked("pidfd_send_signal", sent);
    } catch (error) {
      if (error instanceof SystemError && error.code === "ESRCH") return true;
      throw error;
    }
    return this.hasEnded(withinMs);
  }

  /** Waits for its end so long. */
  async hasEnded(withinMs: number): Promise<boolean> {
    const endMs = performance.now() + withinMs;
    for (;;) {
      const leftMs = Math.ceil(endMs - performance.now());
      if (await poll([{ fd: this.#fd, events: POLLIN }], Math.max(0, leftMs))) return true;
      if (leftMs <= 0) return false;
    }
  }

  [Symbol.dispose](): void {
    if (this.#fd !== -1) closeSync(this.#fd);
    this.#fd = -1; // its number may be another's by now
  }
}
