import type { WorkloadAttachment } from "../volume/attachment.ts";
import { firstPodOf } from "../volume/engine.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import type { MountpointPod, NodeFacts } from "./facts.ts";

/**
 * A Mountpoint Pod that is listed and serves no more, with the workloads that are still on it. They
 * are bound to its mount and to no other, so it needs a successor of its own for that very mount.
 */
export interface Lost {
  readonly name: string;
  /** What is left of it; undefined when it is gone altogether. */
  readonly pod: MountpointPod | undefined;
  readonly mountId: string;
  readonly entries: readonly WorkloadAttachment[];
  /** Everybody whom the attachment lists there, also those who are gone. */
  readonly listedUids: readonly string[];
  /** Of a pod that is gone, where somebody remembers. */
  readonly remembered: Lineage | undefined;
}

/** The n-th Mountpoint Pod of a workload: what names are made of. */
export interface Lineage {
  readonly workloadUid: string;
  readonly generation: number;
}

const BACK_OFF_FIRST_MS = 1_000;
const BACK_OFF_MAX_MS = 300_000;
const GENERATIONS_SEARCHED = 100;
/** A healthy Mountpoint Pod starts within a second or two once its node has the image. */
const START_GRACE_MS = 15_000;

/**
 * Of a pod that is gone and that nobody remembers, the name alone is left: it is compared with the
 * names for the workloads that are listed. Where the original workload is gone as well, the
 * successor is named for the first workload of the mount.
 */
export function lineageOf(lost: Lost, pvName: string): Lineage {
  const { name, listedUids } = lost;
  const first = firstPodOf(lost.mountId);
  const known = lost.pod ?? lost.remembered;
  if (known !== undefined) return known;
  for (const uid of [...listedUids, first]) {
    for (let generation = 0; generation < GENERATIONS_SEARCHED; generation += 1) {
      if (mountpointPodNameOf(uid, pvName, generation) === name) {
        return { workloadUid: uid, generation };
      }
    }
  }
  return { workloadUid: first, generation: 0 };
}

/** The n-th generation waits twice as long as the one before; who lived long waits no more. */
export function successorWaitMs({ pod, entries }: Lost, generation: number, nowMs: number): number {
  const times = entries.map((entry) => Date.parse(entry.attachmentTime));
  const sinceMs = pod?.createdMs ?? Math.max(...times);
  if (sinceMs > nowMs) return 0; // by another controller's clock, and it goes before ours
  const fullMs = BACK_OFF_FIRST_MS * 2 ** Math.min(generation, 20);
  const graceMs = isStarting(pod) ? START_GRACE_MS : 0;
  return sinceMs + Math.max(graceMs, Math.min(fullMs, BACK_OFF_MAX_MS)) - nowMs;
}

/** Workloads that leave with their node, or will not outlive the pod by much, need no successor. */
export function needsSuccessor(
  { pod, entries }: Lost,
  leaving: ReadonlySet<string>,
  node: NodeFacts | undefined,
): boolean {
  if (node === undefined || node.ending) return false;
  if (pod?.shutDown === true && !node.ready) return false;
  return entries.some((entry) => !leaving.has(entry.workloadPodUID));
}

/** It may serve, and nobody has let it go. */
export function isUsable(pod: MountpointPod | undefined): pod is MountpointPod {
  return isUnmarked(pod) && !pod.terminating;
}

/**
 * The node service takes a mount down when its pod is marked. A terminating pod needs the mark as
 * well: it serves its last workload to the end, and would wait for its whole grace period after it.
 */
export function isUnmarked(pod: MountpointPod | undefined): pod is MountpointPod {
  return pod !== undefined && !pod.finished && !pod.needsUnmount;
}

/** The same, and it is not in a crash loop. */
export function isServing(pod: MountpointPod | undefined): pod is MountpointPod {
  return isUsable(pod) && !pod.backingOff;
}

/** No engine of it has a chance to run until somebody corrects something. */
export function isHindered({ cannotStart, unschedulable }: MountpointPod): boolean {
  return cannotStart !== "" || unschedulable !== "";
}

/**
 * The pod has not started, and its status has no cause for it. While a volume of a pod cannot be
 * set up, such as a ConfigMap that does not exist, the kubelet only reports ContainerCreating.
 */
function isStarting(pod: MountpointPod | undefined): boolean {
  return isServing(pod) && !pod.started && !isHindered(pod);
}

/**
 * How long the pod may still take to start before that is told; undefined when it has started, or
 * its status names a cause. Zero and below: it is overdue.
 */
export function startLeftMs(pod: MountpointPod | undefined, nowMs: number): number | undefined {
  if (pod === undefined || !isStarting(pod) || !pod.scheduled) return undefined;
  return pod.createdMs + START_GRACE_MS - nowMs;
}

/** Corrected settings reach the pod by a successor: no engine of the pod has run so far. */
export function mayHaveWrongSettings(pod: MountpointPod): boolean {
  return isHindered(pod) || isStarting(pod);
}
