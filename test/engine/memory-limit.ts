import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cgroupOf, createCgroups } from "../../tools/stack/cgroups.ts";
import { claimSlot } from "../../tools/stack/instance.ts";

const ROOT = "/sys/fs/cgroup";
const MIB = 1 << 20;

/** What the files are called in each version of cgroups. */
const V2 = {
  hierarchy: ROOT,
  limit: "memory.max",
  peak: "memory.peak",
  swap: "memory.swap.max",
  kills: "memory.events",
  private: "anon",
};
const V1 = {
  hierarchy: join(ROOT, "memory"),
  limit: "memory.limit_in_bytes",
  peak: "memory.max_usage_in_bytes",
  swap: "memory.swappiness",
  kills: "memory.oom_control",
  private: "rss",
};

export interface MemoryLimit extends AsyncDisposable {
  /** For NODE_OPTIONS: the process puts itself under the limit before it does anything else. */
  readonly nodeOption: string;
  peakMib(): number;
  /** Memory that the kernel can't take back: of processes, and of memfds, which outlive them. */
  heldMib(): number;
  /** How often the kernel has killed a process for want of memory. */
  oomKills(): number;
}

/** A container's memory limit without the container. It goes with its slot, also after a kill. */
export async function limitMemory(limitMib: number): Promise<MemoryLimit> {
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimSlot());
  await createCgroups(instance.name);
  const files = existsSync(join(ROOT, "cgroup.controllers")) ? V2 : V1;
  const dir = join(files.hierarchy, cgroupOf(instance.name));
  writeFileSync(join(dir, files.limit), String(limitMib * MIB));
  writeFileSync(join(dir, files.swap), "0");
  const code = `import { writeFileSync } from "node:fs";
    writeFileSync(${JSON.stringify(join(dir, "cgroup.procs"))}, String(process.pid));`;
  const all = owned.move();
  const figure = (file: string, name: string) => {
    const found = new RegExp(`^${name} (\\d+)$`, "m").exec(readFileSync(join(dir, file), "utf8"));
    return Number(found?.[1]);
  };
  const held = [files.private, "shmem"];
  return {
    nodeOption: `--import=data:text/javascript,${encodeURIComponent(code)}`,
    peakMib: () => Number(readFileSync(join(dir, files.peak), "utf8")) / MIB,
    heldMib: () => held.reduce((sum, name) => sum + figure("memory.stat", name), 0) / MIB,
    oomKills: () => figure(files.kills, "oom_kill"),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
