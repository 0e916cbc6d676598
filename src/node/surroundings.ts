import type { Log } from "../base/log.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import { boundWorkloads } from "./binds.ts";
import type { ClusterView } from "./cluster-view.ts";
import type { Surroundings } from "./held-mount.ts";
import type { KeptMount, MountNews } from "./kept-mount.ts";
import { GiveUpTimer } from "./give-up-timer.ts";
import { candidates, untilNextMounter, untilSuccessor } from "./successor.ts";

export interface SurroundingsOptions {
  readonly kubeletPath: string;
  readonly view: Pick<ClusterView, "pods" | "pod" | "onPodChange" | "onMountpointPodChange">;
  readonly onNews?: (news: MountNews) => void;
  readonly log: Log;
  readonly giveUpAfterMs?: number;
  readonly giveUpTerminatingAfterMs?: number;
}

/** The node and the cluster, as a mount that is held sees them. */
export function surroundingsOf(
  options: SurroundingsOptions,
  onEnd: (mount: KeptMount) => void,
): Surroundings {
  const { kubeletPath, view, log, giveUpAfterMs, giveUpTerminatingAfterMs } = options;
  return {
    log,
    candidates: (mount) => candidates(mount, view),
    untilMounter: (mount, signal) => untilNextMounter(mount, view, kubeletPath, signal),
    untilSuccessor: (mount, signal) => untilSuccessor(mount, view, signal),
    isMounted: ({ dir, device }) => mountAt(readMounts(), dir)?.device === device,
    onNews: (news) => options.onNews?.(news),
    onEnd,
    giveUpTimer: new GiveUpTimer({
      workloadsOf: (source) => boundWorkloads(source, kubeletPath),
      isTerminating: (uid) => view.pod(uid)?.leaving ?? true,
      onChange: (listener) => view.onPodChange(listener),
      giveUpAfterMs,
      giveUpTerminatingAfterMs,
    }),
  };
}
