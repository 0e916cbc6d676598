import { readdirSync, readlinkSync, statSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { childrenOf, memoryBytes } from "../../tools/stack/processes.ts";

/** Of st_blocks, whatever the file system. */
const BLOCK_BYTES = 512;

export function memoryMib(pid: number, line: "VmHWM" | "VmRSS"): number {
  return memoryBytes(pid, line) / (1 << 20);
}

const LOOK_EVERY_MS = 200;

/**
 * The least that engine and memory files of a mount have held in a while. What is on its way comes
 * and goes; what is never given back stays in the least figure.
 */
export async function lowestMemoryMib(supervisorPid: number, windowMs: number): Promise<number> {
  const endMs = performance.now() + windowMs;
  let lowest = Infinity;
  while (performance.now() < endMs) {
    lowest = Math.min(lowest, engineBytes(supervisorPid) + memoryFileBytes(supervisorPid));
    await delay(LOOK_EVERY_MS);
  }
  return lowest / (1 << 20);
}

/** Infinity between two engines, and for one that has ended since it was found. */
function engineBytes(supervisorPid: number): number {
  const [pid] = childrenOf(supervisorPid);
  try {
    return pid === undefined ? Infinity : memoryBytes(pid, "RssAnon") || Infinity;
  } catch {
    return Infinity;
  }
}

function memoryFileBytes(pid: number): number {
  const dir = `/proc/${pid}/fd`;
  const ofMemory = readdirSync(dir).filter((fd) => linkOf(`${dir}/${fd}`).startsWith("/memfd:"));
  return ofMemory.reduce((sum, fd) => sum + statSync(`${dir}/${fd}`).blocks * BLOCK_BYTES, 0);
}

/** A descriptor may be closed between the two looks at it. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
