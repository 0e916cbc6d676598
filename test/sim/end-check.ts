import assert from "node:assert/strict";
import type { Workload } from "../../src/reconciler/facts.ts";
import type { ModelApi } from "./model-api.ts";

/** Attachments and Mountpoint Pods at the end of a life; workloads held back wait for a place. */
export function checkEnd(api: ModelApi, heldBack: ReadonlySet<string>): void {
  const listedPods = new Set<string>();
  const places = new Map<string, number>();
  for (const { spec, status, reported = [] } of api.attachments.values()) {
    const pods = Object.entries(spec.mountpointS3PodAttachments);
    if (pods.length === 0) checkHeldBack(api, spec.persistentVolumeName, heldBack);
    // Nothing written is the same as pending.
    else
      assert.equal(
        status?.phase ?? "Pending",
        phaseOf(api, Object.keys(spec.mountpointS3PodAttachments)),
      );
    for (const [name, entries] of pods) {
      assert(entries.length > 0, "a pod that was let go is still listed");
      assert(!listedPods.has(name), "a pod is listed twice");
      listedPods.add(name);
      for (const { workloadPodUID: uid } of entries) {
        const workload = api.workloads.get(uid);
        assert(workload !== undefined && !workload.ended, "a workload that is over is listed");
        const place = `${uid} ${spec.persistentVolumeName}`;
        places.set(place, (places.get(place) ?? 0) + 1);
      }
    }
    checkPods(api, spec.mountpointS3PodAttachments);
    const listed = spec.mountpointS3PodAttachments;
    const stale = reported.filter((name) => !api.pods.has(name) && !Object.hasOwn(listed, name));
    assert(stale.length < Math.max(2, reported.length), "a report on a pod that is gone stays");
  }
  for (const name of api.pods.keys()) assert(listedPods.has(name), `pod ${name} is left over`);
  checkMounts(api);
  for (const workload of api.workloads.values()) {
    if (!heldBack.has(workload.uid)) checkServed(api, workload, places);
  }
  for (const count of places.values()) assert.equal(count, 1, "a workload is attached twice");
}

/** An attachment without pods tells that its workloads wait for a place: there are both. */
function checkHeldBack(api: ModelApi, pvName: string, heldBack: ReadonlySet<string>): void {
  const claim = pvName.replace("pv", "claim");
  const waits = api.workloads.values().some((one) => {
    return heldBack.has(one.uid) && one.claims.includes(claim);
  });
  assert(waits, "an attachment without pods is left");
}

/** All that remains of troubles at the end are pods of workloads that leave. */
function phaseOf(api: ModelApi, podNames: readonly string[]): string {
  const good = podNames.every((name) => {
    const pod = api.pods.get(name);
    return pod !== undefined && !pod.finished && !pod.needsUnmount && !pod.backingOff;
  });
  if (!good) return "Recovering";
  const starting = podNames.map((name) => api.pods.get(name)).find((pod) => pod?.started === false);
  if (starting === undefined) return "Mounted";
  return starting.name === starting.mountId ? "Pending" : "Recovering";
}

/** Two that serve one mount would corrupt it. */
function checkMounts(api: ModelApi): void {
  const served = new Set<string>();
  for (const { mountId } of api.pods.values()) {
    assert(!served.has(mountId), `mount ${mountId} has two Mountpoint Pods`);
    served.add(mountId);
  }
}

/** Where somebody stays, everybody is on a good pod. */
function checkPods(api: ModelApi, listed: Record<string, readonly { workloadPodUID: string }[]>) {
  const uids = Object.values(listed).flatMap((entries) => entries.map((e) => e.workloadPodUID));
  if (uids.every((uid) => api.workloads.get(uid)?.terminating === true)) return;
  const names = Object.keys(listed);
  for (const name of names) {
    const pod = api.pods.get(name);
    const leaving = listed[name]?.every((e) => api.workloads.get(e.workloadPodUID)?.terminating);
    if (leaving === true) continue;
    assert(pod !== undefined, "a live workload's Mountpoint Pod does not exist");
    const ends = pod.finished || pod.terminating || pod.needsUnmount || pod.backingOff;
    assert(!ends, "a live workload's pod ends");
    const hindrance = `${pod.cannotStart}${pod.unschedulable}`;
    assert.equal(hindrance, "", "a live workload's pod never got the corrected settings");
    assert(pod.started, "a live workload's pod never started");
  }
}

function checkServed(api: ModelApi, workload: Workload, places: ReadonlyMap<string, number>): void {
  if (workload.nodeName === "" || workload.ended || workload.terminating) return;
  if (api.firstVersion.has(workload.uid)) return;
  // Where the Mountpoint Pod and all who remember went too, nothing tells that it was served.
  if (workload.started && api.deletedByHand.has(workload.uid)) return;
  for (const claim of workload.claims) {
    const place = `${workload.uid} ${claim.replace("claim", "pv")}`;
    assert.equal(places.get(place), 1, "a live workload has no attachment");
  }
}
