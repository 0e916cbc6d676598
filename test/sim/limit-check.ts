import assert from "node:assert/strict";
import type { Attachment, Volume, Workload } from "../../src/reconciler/facts.ts";
import { sharingKeyOf } from "../../src/reconciler/sharing-key.ts";
import { isHindered, isServing } from "../../src/reconciler/succession.ts";
import { attachmentNameOf } from "../../src/volume/attachment.ts";
import type { ModelApi } from "./model-api.ts";

/** A live workload of the present version, with its attachments: those that serve it or not. */
interface Standing {
  readonly workload: Workload;
  readonly served: readonly string[];
  readonly missing: readonly string[];
}

/** Workloads that rightly wait for a place at the end of a life, by UID. */
export function checkLimit(api: ModelApi, volumes: readonly Volume[], isCertain: boolean) {
  const standings = Array.from(api.workloads.values(), (one) => standingOf(api, one, volumes));
  const live = standings.filter((one) => one !== undefined);
  const waiting = live.filter(({ missing }) => missing.length > 0);
  const inLine = waiting.filter(({ served, missing }) => {
    return served.length + missing.length <= api.limit;
  });
  const free = api.limit - api.mounts().size;
  const left = Array.from(api.attachments.values()).flatMap((one) => mountsBeingLeft(api, one));
  const [first] = inLine.toSorted(comparePlaces);
  for (const one of inLine) {
    const isBegun = one.served.length > 0;
    if (one !== first && !isBegun) continue; // it waits for its turn
    const costs = one.missing.filter((name) => !isOpen(api, name)).length;
    assert(costs > free, "a workload waits although there are places for all its volumes");
    // A workload of the first version may have got a Mountpoint Pod that a crash left while its own
    // mounts still served it. No limit applies to that, and a reboot then takes its mounts away.
    const isRestarted = api.restarted.has(one.workload.uid);
    const mayWait = !isBegun || isRestarted || costs <= free + left.length;
    if (isCertain) assert(mayWait, "a workload waits with a part of its volumes");
  }
  return new Set(waiting.map(({ workload }) => workload.uid));
}

function standingOf(
  api: ModelApi,
  workload: Workload,
  volumes: readonly Volume[],
): Standing | undefined {
  const { uid, nodeName, ended, terminating, started } = workload;
  if (nodeName === "" || ended || terminating || api.firstVersion.has(uid)) return undefined;
  if (started && api.deletedByHand.has(uid)) return undefined;
  const names = workload.claims.map((claim) => {
    const volume = volumes.find(({ claimKey }) => claimKey === `ns/${claim}`);
    assert(volume !== undefined);
    return attachmentNameOf(sharingKeyOf(workload, volume), volume.uid);
  });
  // A volume that was edited does not move its workload: then another attachment serves it.
  const served = Array.from(api.attachments.values())
    .filter(({ spec }) => {
      const entries = Object.values(spec.mountpointS3PodAttachments).flat();
      return entries.some(({ workloadPodUID }) => workloadPodUID === uid);
    })
    .map(({ name }) => name);
  return { workload, served, missing: names.filter((name) => !served.includes(name)) };
}

/**
 * Mountpoint Pods that only terminating workloads are listed for. When such a pod fails, it gets no
 * successor, and a workload that was about to join it waits for the place that they leave.
 */
function mountsBeingLeft(api: ModelApi, { spec }: Attachment): string[] {
  const isLeaving = (uid: string) => api.workloads.get(uid)?.terminating === true;
  const listed = Object.entries(spec.mountpointS3PodAttachments);
  const left = listed.filter(([, users]) => users.every((one) => isLeaving(one.workloadPodUID)));
  return left.map(([pod]) => pod);
}

function isOpen(api: ModelApi, name: string): boolean {
  const pods = api.pods.values().filter(({ attachment }) => attachment === name);
  const { mountpointS3PodAttachments: listed = {} } = api.attachments.get(name)?.spec ?? {};
  return pods.some((pod) => {
    const users = listed[pod.name]?.map((one) => api.workloads.get(one.workloadPodUID)) ?? [];
    const isKept = pod.started || users.some((user) => user?.terminating === false);
    return isServing(pod) && !isHindered(pod) && isKept;
  });
}

/** Two replicas may both have begun to serve; what they began comes first. */
function comparePlaces(one: Standing, other: Standing): number {
  const isBegun = (standing: Standing) => Number(standing.served.length > 0);
  if (isBegun(one) !== isBegun(other)) return isBegun(other) - isBegun(one);
  const ageMs = one.workload.createdMs - other.workload.createdMs;
  return ageMs === 0 ? (one.workload.uid < other.workload.uid ? -1 : 1) : ageMs;
}
