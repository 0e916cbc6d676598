import type { Action } from "./action.ts";
import type { Observed } from "./observed.ts";
import type { MountpointPod } from "./facts.ts";

/** Another replica may be about to list the pod it has just made. */
const UNLISTED_GRACE_MS = 30_000;
/** A pod that is let go while it starts may still run for a moment, and end by itself. */
const START_LIMIT_MS = 120_000;
/** Longer than a node service is away for an upgrade, and than uploads may take. */
const UNMOUNT_LIMIT_MS = 30 * 60_000;

/**
 * What becomes of a pod that its attachment does not list: it has finished, was let go, or was left
 * by a crash. An heir is who has its mount now.
 */
export function orphanActions(
  pod: MountpointPod,
  heir: string | undefined,
  seen: Observed,
): Action[] {
  if (pod.finished) return [finished(pod, seen)];
  if (pod.terminating && (pod.needsUnmount || heir !== undefined)) return [];
  if (heir !== undefined) return [replaced(pod, heir, seen)];
  if (!pod.needsUnmount) return [unused(pod, seen)];
  if (pod.backingOff) return [{ do: "delete-pod", pod, why: "can not end itself" }];
  return pod.started ? unmounting(pod, seen) : [neverStarted(pod, seen)];
}

/**
 * The node service unmounts and ends the pod. It may have left the node, though the pod has not: a
 * DaemonSet with another node selector does that. Deleted, the pod still has its grace period to
 * complete uploads.
 */
function unmounting(pod: MountpointPod, { nowMs }: Observed): Action[] {
  if (pod.markedMs === undefined) return []; // by an earlier release
  const afterMs = pod.markedMs + UNMOUNT_LIMIT_MS - nowMs;
  if (afterMs > 0) return [{ do: "look-again", afterMs }];
  return [{ do: "delete-pod", pod, why: "never unmounted" }];
}

function finished(pod: MountpointPod, { nowMs }: Observed): Action {
  const afterMs = (pod.goneByMs ?? 0) - nowMs;
  return afterMs > 0 ? { do: "look-again", afterMs } : { do: "delete-pod", pod, why: "finished" };
}

/** Never marked: its mount lives on in another pod. A newer one may be about to be listed. */
function replaced(pod: MountpointPod, heir: string, { pods, nowMs }: Observed): Action {
  const generation = pods.get(heir)?.generation ?? 0;
  const afterMs = pod.createdMs + UNLISTED_GRACE_MS - nowMs;
  if (afterMs > 0 && pod.generation > generation) return { do: "look-again", afterMs };
  return { do: "delete-pod", pod, why: "replaced" };
}

/** Nobody will ever unmount and end a pod whose image can not be had: give up on it. */
function neverStarted(pod: MountpointPod, { nowMs }: Observed): Action {
  const afterMs = pod.createdMs + START_LIMIT_MS - nowMs;
  if (pod.scheduled && afterMs > 0) return { do: "look-again", afterMs };
  return { do: "delete-pod", pod, why: "never started" };
}

function unused(pod: MountpointPod, { gone, nowMs }: Observed): Action {
  const afterMs = pod.createdMs + UNLISTED_GRACE_MS - nowMs;
  if (afterMs > 0 && !gone.has(pod.workloadUid)) return { do: "look-again", afterMs };
  return { do: "mark-pod", pod, why: "nobody uses it" };
}
