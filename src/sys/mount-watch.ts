import { Buffer } from "node:buffer";
import { closeSync, openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { bind, checked } from "./libc.ts";
import { FOREVER_MS, POLLIN, POLLPRI, poll } from "./poll.ts";

const EFD_CLOEXEC = 0o2000000;
/**
 * From one telling to the next: pods that start at once make hundreds of mounts, and everybody who
 * listens looks anew each time.
 */
const PAUSE_MS = 20;
const cEventfd = bind("int eventfd(unsigned int initial, int flags)");

const listeners = new Set<() => void>();
let stop: (() => void) | undefined;

/**
 * Tells of changes of this process's mount table, as poll(2) on mountinfo does: of the first at
 * once, of those that follow closely together. One pool thread for all listeners, and none without:
 * a mount on top of a watched directory shows nowhere else.
 */
export function onMountChange(listener: () => void): Disposable {
  stop ??= follow();
  listeners.add(listener);
  return {
    [Symbol.dispose]() {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      stop?.();
      stop = undefined;
    },
  };
}

/** Starts to follow; the result ends it. */
function follow(): () => void {
  // Changes are counted from here on, not from the first poll.
  const table = openSync("/proc/self/mountinfo", "r");
  const wake = checked("eventfd", cEventfd(0, EFD_CLOEXEC));
  const ending = new AbortController();
  const run = async () => {
    const wanted = [
      { fd: table, events: POLLPRI },
      { fd: wake, events: POLLIN },
    ];
    while (!ending.signal.aborted) {
      const changed = await poll(wanted, FOREVER_MS);
      if (!changed || ending.signal.aborted) continue;
      for (const listener of listeners) listener();
      await sleep(PAUSE_MS, undefined, { signal: ending.signal }).catch(() => {});
    }
    closeSync(table);
    closeSync(wake);
  };
  void run(); // a listener that throws is a bug, and ends the process as one
  return () => {
    ending.abort();
    const one = Buffer.alloc(8);
    one.writeBigUInt64LE(1n);
    writeSync(wake, one);
  };
}
