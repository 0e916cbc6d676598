import type { AttachmentCondition, AttachmentStatus } from "../volume/attachment.ts";
import { isOwnMount } from "../volume/engine.ts";
import type { Observed } from "./decide.ts";
import type { MountpointPod, Workload } from "./facts.ts";
import { isServing } from "./succession.ts";

/** What the controller says of an attachment; the rest of its status is the node service's. */
export type ControllerStatus = Required<Pick<AttachmentStatus, "phase" | "conditions">>;

/** Something that a user must hear of at the pod that waits. */
export interface Trouble {
  readonly workload: Workload;
  readonly reason: string;
  readonly note: string;
}

interface Verdict {
  readonly phase: ControllerStatus["phase"];
  readonly reason: string;
  readonly message: string;
}

/** No counts and no times in it: it is written when something has changed, and only then. */
export function statusOf(seen: Observed): ControllerStatus {
  const { phase, reason, message } = verdictOn(seen);
  const now = new Date(seen.nowMs).toISOString();
  const before = seen.attachment?.status?.conditions ?? [];
  const condition = (type: string, is: boolean): AttachmentCondition => {
    const status = is ? "True" : "False";
    const same = before.find((one) => one.type === type && one.status === status);
    return { type, status, reason, message, lastTransitionTime: same?.lastTransitionTime ?? now };
  };
  const degraded = phase === "Recovering" || phase === "Failed";
  return {
    phase,
    conditions: [condition("Ready", phase === "Mounted"), condition("Degraded", degraded)],
  };
}

/** Nothing written is the same as pending without a problem: that spares every attach a write. */
export function isSameStatus(
  stored: AttachmentStatus | undefined,
  next: ControllerStatus,
): boolean {
  if (stored?.phase === undefined) {
    return next.phase === "Pending" && next.conditions.every((one) => one.message === "");
  }
  if (stored.phase !== next.phase) return false;
  const conditions = stored.conditions ?? [];
  return next.conditions.every((one) =>
    conditions.some((old) => old.type === one.type && wordsOf(old) === wordsOf(one)),
  );
}

/** What keeps workloads waiting that the API server knows of. */
export function troublesOf(seen: Observed): Trouble[] {
  const troubles: Trouble[] = [];
  for (const { name, pod, uids } of listedIn(seen)) {
    if (pod === undefined || pod.unschedulable === "") continue;
    const note = unschedulable(name, seen, pod);
    for (const workload of seen.wanting) {
      if (!uids.has(workload.uid)) continue;
      troubles.push({ workload, reason: "MountpointPodUnschedulable", note });
    }
  }
  return troubles;
}

function verdictOn(seen: Observed): Verdict {
  const listed = listedIn(seen);
  const lost = listed.find(({ pod }) => !isServing(pod));
  if (lost !== undefined) return onLost(lost.name, lost.pod, seen);
  const stuck = listed.find(({ pod }) => pod !== undefined && pod.unschedulable !== "");
  if (stuck?.pod !== undefined) {
    const message = unschedulable(stuck.name, seen, stuck.pod);
    return { phase: phaseOf(stuck.pod), reason: "Unschedulable", message };
  }
  const starting = listed.find(({ pod }) => pod?.started === false)?.pod;
  if (starting === undefined) return { phase: "Mounted", reason: "Running", message: "" };
  return { phase: phaseOf(starting), reason: "Starting", message: "" };
}

function onLost(name: string, pod: MountpointPod | undefined, { node, key }: Observed): Verdict {
  const nodeName = key?.nodeName ?? "";
  if (node === undefined || node.ending) {
    return { phase: "Failed", reason: "NodeGone", message: `node ${nodeName} is gone or ends` };
  }
  const message = `Mountpoint Pod ${name} is lost: ${howLost(pod)}`;
  return { phase: "Recovering", reason: "MountpointPodLost", message };
}

function howLost(pod: MountpointPod | undefined): string {
  if (pod === undefined) return "it was deleted";
  if (pod.finished) return "it has ended";
  if (pod.terminating) return "it is being deleted";
  return pod.backingOff ? "it crashes again and again" : "it was told to unmount";
}

/** A successor that starts is a mount that comes back. */
function phaseOf(pod: MountpointPod): ControllerStatus["phase"] {
  return isOwnMount(pod.name, pod.mountId) ? "Pending" : "Recovering";
}

function unschedulable(name: string, { key }: Observed, pod: MountpointPod): string {
  return `Mountpoint Pod ${name} finds no room on node ${key?.nodeName}: ${pod.unschedulable}`;
}

function listedIn({ attachment, pods }: Observed) {
  const listed = Object.entries(attachment?.spec.mountpointS3PodAttachments ?? {});
  return listed
    .filter(([, entries]) => entries.length > 0)
    .map(([name, entries]) => ({
      name,
      pod: pods.get(name),
      uids: new Set(entries.map((entry) => entry.workloadPodUID)),
    }));
}

function wordsOf({ status, reason, message }: AttachmentCondition): string {
  return JSON.stringify([status, reason, message]);
}
