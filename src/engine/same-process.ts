import { readFileSync } from "node:fs";

/**
 * Threads of one process have their own pids. Where the callers' /proc is not ours to see, only
 * equal pids count: then a close by another thread ends the upload a little later, at release.
 */
export function isSameProcess(onePid: number, otherPid: number): boolean {
  if (onePid === otherPid) return true;
  const group = groupOf(onePid);
  return group !== undefined && group === groupOf(otherPid);
}

function groupOf(pid: number): string | undefined {
  try {
    return /^Tgid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  } catch {
    return undefined;
  }
}
