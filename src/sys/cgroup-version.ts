import { statfsSync } from "node:fs";

const CGROUP2_SUPER_MAGIC = 0x63677270;

/** A node with cgroup v2 has the unified hierarchy mounted here, one with v1 a plain directory. */
export function cgroupVersion(path = "/sys/fs/cgroup"): 1 | 2 {
  return statfsSync(path).type === CGROUP2_SUPER_MAGIC ? 2 : 1;
}
