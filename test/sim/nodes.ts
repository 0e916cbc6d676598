import type { MountpointPod } from "../../src/reconciler/facts.ts";
import type { ModelApi } from "./model-api.ts";
import { hasBadImage, isLarge, lacksVolume } from "./settings.ts";

/** False: it is on no node. */
export function schedule(api: ModelApi, pod: MountpointPod): boolean {
  if (pod.scheduled) return true;
  const fits = api.isRoomy || !isLarge(pod);
  const unschedulable = fits ? "" : "no node has room";
  if (fits || pod.unschedulable !== unschedulable) {
    api.putPod({ ...pod, scheduled: fits, unschedulable });
  }
  return fits;
}

export function canRun(api: ModelApi, pod: MountpointPod): boolean {
  return !hasBadImage(pod) && !lacksVolume(pod) && (pod.scheduled || api.isRoomy || !isLarge(pod));
}

/** The work of scheduler and kubelet, as far as the pod's settings allow. */
export function runPod(api: ModelApi, pod: MountpointPod): void {
  if (!schedule(api, pod) || lacksVolume(pod)) return;
  const scheduled = api.pods.get(pod.name) ?? pod;
  const isBad = hasBadImage(pod);
  const cannotStart = isBad ? "image cannot be pulled" : "";
  if (isBad && pod.cannotStart !== "") return;
  api.putPod({ ...scheduled, started: !isBad, cannotStart });
}
