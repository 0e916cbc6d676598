import { readFileSync } from "node:fs";

/** Where each version of cgroups counts them, by its line in /proc/self/cgroup. */
const COUNTERS = [
  { line: /^0::(.*)$/m, file: (path: string) => `/sys/fs/cgroup${path}/memory.events` },
  {
    line: /^\d+:memory:(.*)$/m,
    file: (path: string) => `/sys/fs/cgroup/memory${path}/memory.oom_control`,
  },
] as const;

/** How often the kernel has killed for memory in our cgroup; 0 where it does not say. */
export function countOomKills(): number {
  const own = readFileSync("/proc/self/cgroup", "utf8");
  let kills = 0;
  for (const { line, file } of COUNTERS) {
    const path = line.exec(own)?.[1];
    if (path !== undefined) kills += countIn(file(path));
  }
  return kills;
}

function countIn(path: string): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync(path, "utf8"))?.[1] ?? 0);
  } catch {
    return 0; // another version, or not mounted here
  }
}
