import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { waitUntilGone } from "../../tools/stack/processes.ts";

const ROOT = "/sys/fs/cgroup";
/** A hierarchy of v1 that limits nothing, or the one of v2. */
const HIERARCHY = [`${ROOT}/pids`, ROOT].find((dir) => existsSync(join(dir, "cgroup.procs"))) ?? "";

export interface PodCgroup extends AsyncDisposable {
  /** Puts a process there: for the node service it then runs in that pod. */
  take(pid: number): void;
}

/** The cgroup of a pod, as a kubelet names it. It goes when its processes have ended. */
export function podCgroup(podUid: string): PodCgroup {
  const dir = join(HIERARCHY, `pod${podUid}`);
  mkdirSync(dir);
  return {
    take: (pid) => writeFileSync(join(dir, "cgroup.procs"), String(pid)),
    async [Symbol.asyncDispose]() {
      const pids = () =>
        readFileSync(join(dir, "cgroup.procs"), "utf8").split("\n").filter(Boolean);
      await waitUntilGone(async () => pids());
      rmdirSync(dir);
    },
  };
}
