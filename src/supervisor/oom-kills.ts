import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Where each version of cgroups counts kills: by its line in /proc/self/cgroup, below the root. */
const COUNTERS = [
  { line: /^0::(.*)$/m, hierarchy: ".", file: "memory.events" },
  { line: /^\d+:memory:(.*)$/m, hierarchy: "memory", file: "memory.oom_control" },
] as const;

/** How often the kernel has killed for memory in the own cgroup; 0 where it does not say. */
export function countOomKills(self = "/proc/self/cgroup", root = "/sys/fs/cgroup"): number {
  const own = readFileSync(self, "utf8");
  let kills = 0;
  for (const { line, hierarchy, file } of COUNTERS) {
    const path = line.exec(own)?.[1];
    if (path === undefined) continue;
    // With cgroups v1 a container has its own cgroup mounted as the root of the hierarchy, while
    // the path stays that of the host.
    const places = [join(root, hierarchy, path, file), join(root, hierarchy, file)];
    kills += places.map(countIn).find((count) => count !== undefined) ?? 0;
  }
  return kills;
}

/** Undefined: another version, or not mounted here. */
function countIn(path: string): number | undefined {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync(path, "utf8"))?.[1] ?? 0);
  } catch {
    return undefined;
  }
}
