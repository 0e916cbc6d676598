import { allPids, memoryBytes, statOf } from "../../stack/processes.ts";

const TICKS_PER_S = 100; // USER_HZ, the same on every Linux that Node runs on

/** What a process and all that it has started have used so far. */
export interface Use {
  /** Of all of them, and of those that have ended. */
  readonly cpuSeconds: number;
  /** By process, the first one first. */
  readonly rssMb: readonly number[];
  readonly peakRssMb: readonly number[];
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly cpuSeconds: number;
}

export async function useOf(pid: number): Promise<Use> {
  const family = familyOf(pid, await allProcesses());
  return {
    cpuSeconds: family.reduce((sum, one) => sum + one.cpuSeconds, 0),
    rssMb: family.map((one) => memoryMb(one.pid, "VmRSS")),
    peakRssMb: family.map((one) => memoryMb(one.pid, "VmHWM")),
  };
}

async function allProcesses(): Promise<Process[]> {
  const found: Process[] = [];
  for (const pid of await allPids()) {
    const fields = await statOf(pid);
    if (fields !== undefined) found.push(processOf(pid, fields));
  }
  return found;
}

/** By the fields of /proc/PID/stat after the name; children that were waited for are counted. */
export function processOf(pid: number, fields: readonly string[]): Process {
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { pid, parent: Number(fields[1]), cpuSeconds: ticks / TICKS_PER_S };
}

/** The process and its descendants, parents before children. */
export function familyOf<T extends Pick<Process, "pid" | "parent">>(
  pid: number,
  all: readonly T[],
): T[] {
  const family = all.filter((one) => one.pid === pid);
  for (const member of family) family.push(...all.filter(({ parent }) => parent === member.pid));
  return family;
}

/** 0 for one that has ended meanwhile. */
function memoryMb(pid: number, line: "VmHWM" | "VmRSS"): number {
  try {
    return (memoryBytes(pid, line) || 0) / 1e6;
  } catch {
    return 0;
  }
}
