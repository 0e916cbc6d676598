import { readFileSync } from "node:fs";

/** How often the kernel has killed for memory in our cgroup; 0 where it does not say. */
export function countOomKills(): number {
  try {
    const [, path = ""] = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8")) ?? [];
    const events = readFileSync(`/sys/fs/cgroup${path}/memory.events`, "utf8");
    return Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0);
  } catch {
    return 0;
  }
}
