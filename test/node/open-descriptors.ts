import assert from "node:assert/strict";
import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";

const TURNS_MAX = 200;

/** libuv's own, opened once and kept; and the one that lists the others, gone when it is read. */
const KEPT = /^(anon_inode:inotify|\/proc\/.*|gone)$/;

/** What a process holds open, by what each descriptor is. */
export function openDescriptors(pid: number | "self" = "self"): string[] {
  const dir = `/proc/${pid}/fd`;
  const targets = readdirSync(dir).map((fd) => {
    try {
      return readlinkSync(`${dir}/${fd}`);
    } catch {
      return "gone";
    }
  });
  return targets.filter((target) => !KEPT.test(target)).toSorted();
}

/** Sockets and watchers close in a later turn of the loop: some are given before it is a leak. */
export async function assertNothingLeaked(before: readonly string[]): Promise<void> {
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    if (openDescriptors().length <= before.length) return;
    await nextTurn();
  }
  assert.deepEqual(openDescriptors(), before);
}
