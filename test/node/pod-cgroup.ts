import { existsSync, mkdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { waitUntilGone } from "../../tools/stack/processes.ts";

const ROOT = "/sys/fs/cgroup";
/** A hierarchy of v1 that limits nothing, or the one of v2. */
const HIERARCHY = [`${ROOT}/pids`, ROOT].find((dir) => existsSync(join(dir, "cgroup.procs"))) ?? "";

export interface PodCgroup extends AsyncDisposable {
  /** A process that writes 0 there runs in that pod, for the node service. */
  readonly procs: string;
}

/** The cgroup of a pod, as a kubelet names it. It goes when its processes have ended. */
export function podCgroup(podUid: string): PodCgroup {
  const dir = join(HIERARCHY, `pod${podUid}`);
  mkdirSync(dir);
  const procs = join(dir, "cgroup.procs");
  return {
    procs,
    async [Symbol.asyncDispose]() {
      await waitUntilGone(async () => readFileSync(procs, "utf8").split("\n").filter(Boolean));
      rmdirSync(dir);
    },
  };
}
