import { writeFileSync } from "node:fs";
import { countOomKills } from "../../src/supervisor/oom-kills.ts";

/**
 * `memory-hog.ts CGROUP_PROCS`: joins a container's cgroup and takes its memory until the kernel
 * has killed somebody there. That is one of the container's own: the kubelet makes a pod's
 * processes the first to go.
 */
const PIECE_BYTES = 1 << 20;

const [, , procs = ""] = process.argv;
writeFileSync(procs, "0");
const kills = countOomKills();
const taken: Buffer[] = [];
while (countOomKills() === kills) taken.push(Buffer.alloc(PIECE_BYTES, 1));
