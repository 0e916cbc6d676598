import { readFile } from "node:fs/promises";
import { allPids } from "../../stack/processes.ts";

const KIB_PER_MIB = 1024;

export interface PodMemory {
  readonly rssMib: number;
  readonly anonymousMib: number;
  /** Pages that others have too count in part. */
  readonly pssMib: number;
  readonly processes: number;
}

/** What all processes of a container hold together; RSS counts what two of them share twice. */
export async function memoryOf(container: string): Promise<PodMemory> {
  const sum = { rssMib: 0, anonymousMib: 0, pssMib: 0, processes: 0 };
  for (const pid of await allPids()) {
    const cgroups = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "");
    if (!cgroups.includes(container)) continue;
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
    const mib = (line: string) =>
      Number(new RegExp(`^${line}:\\s*(\\d+) kB`, "m").exec(rollup)?.[1]) / KIB_PER_MIB;
    sum.rssMib += mib("Rss");
    sum.anonymousMib += mib("Anonymous");
    sum.pssMib += mib("Pss");
    sum.processes += 1;
  }
  if (sum.processes === 0) throw new Error(`no process of container ${container} was found`);
  return sum;
}
