import type { AttachmentCondition, AttachmentStatus } from "../volume/attachment.ts";
import { LIMIT_REASON } from "../volume/attachment.ts";
import { isOwnMount } from "../volume/engine.ts";
import type { Observed } from "./observed.ts";
import type { MountpointPod, Workload } from "./facts.ts";
import type { Place } from "./namespace-limit.ts";
import { isHindered, isServing, startLeftMs } from "./succession.ts";

/** What the controller says of an attachment; the rest of its status is the node service's. */
export type ControllerStatus = Required<Pick<AttachmentStatus, "phase" | "conditions">>;

/** Something that a user must hear of at the pod that waits. */
export interface Trouble {
  readonly workload: Workload;
  readonly reason: string;
  readonly note: string;
}

const LIMIT_EVENT = "MountpointPodLimitReached";
const RAISE_LIMIT = "have mountpointPod.limits.perNamespace raised";
const LIMIT_REMEDY = `delete pods with S3 volumes from it, or ${RAISE_LIMIT}`;
const TOO_LARGE_REMEDY = `use fewer volumes in one pod, or ${RAISE_LIMIT}`;

interface Verdict {
  readonly phase: ControllerStatus["phase"];
  readonly reason: string;
  readonly message: string;
}

/** No counts and no times in it: it is written when something has changed, and only then. */
export function statusOf(seen: Observed, heldBack: readonly string[] = []): ControllerStatus {
  return statusFrom(verdictOn(seen, heldBack), seen);
}

function statusFrom({ phase, reason, message }: Verdict, seen: Observed): ControllerStatus {
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

/**
 * The API server refuses what the attachment needs, and will again: its lists stay as they are, and
 * what decide() would have written comes after them.
 */
export function refusedStatusOf(seen: Observed, message: string): ControllerStatus {
  return statusFrom({ ...verdictOn(seen, []), reason: "FailedMountpointPod", message }, seen);
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

/**
 * Reports of the node on Mountpoint Pods that are gone. One report stays as long as the attachment:
 * that an engine was lost is the reason why kubelets repeat publishes.
 */
export function staleReports({ attachment, pods }: Observed): string[] {
  const { reported = [], spec } = attachment ?? {};
  const listed = spec?.mountpointS3PodAttachments ?? {};
  const stale = reported.filter((name) => !Object.hasOwn(listed, name) && !pods.has(name));
  return stale.length < reported.length ? stale : stale.slice(1);
}

/** What keeps workloads waiting that the API server knows of. */
export function troublesOf(seen: Observed): Trouble[] {
  const troubles: Trouble[] = [];
  for (const { name, pod, uids } of listedIn(seen)) {
    if (!isStuck(pod, seen)) continue;
    const [reason, note] = hindrance(name, seen, pod);
    for (const workload of seen.wanting) {
      if (uids.has(workload.uid))
        troubles.push({ workload, reason: `MountpointPod${reason}`, note });
    }
  }
  return troubles;
}

/** Tells each workload why the limit of its namespace makes it wait. */
export function limitTroubles(workloads: readonly Workload[], { key }: Observed, place: Place) {
  const { namespace, taken, limit } = place;
  return workloads.map((workload): Trouble => {
    const size = place.tooLarge.get(workload.uid);
    const cause =
      size === undefined
        ? `namespace ${namespace} has ${taken} Mountpoint Pods, its limit is ${limit}` +
          (taken < limit ? ", and the first pod that waits needs more than are left" : "")
        : `its pod needs ${size} Mountpoint Pods, the limit of namespace ${namespace} is ${limit}`;
    const remedy = size === undefined ? LIMIT_REMEDY : TOO_LARGE_REMEDY;
    const note = `volume ${key?.persistentVolumeName} waits: ${cause}; ${remedy}`;
    return { workload, reason: LIMIT_EVENT, note };
  });
}

/** Without counts, as in all of the status. */
function limitMessage(heldBack: readonly string[], place: Place): string {
  const { namespace, limit, tooLarge } = place;
  if (heldBack.every((uid) => tooLarge.has(uid))) {
    const cause = `a pod needs more Mountpoint Pods than the limit of namespace ${namespace}`;
    return `${cause}, ${limit}: ${TOO_LARGE_REMEDY}`;
  }
  const cause = `namespace ${namespace} has reached its limit of ${limit} Mountpoint Pods`;
  return `${cause}: ${LIMIT_REMEDY}`;
}

function verdictOn(seen: Observed, heldBack: readonly string[]): Verdict {
  const listed = listedIn(seen);
  const lost = listed.find(({ pod }) => !isServing(pod));
  if (lost !== undefined) return onLost(lost.name, lost.pod, seen);
  for (const { name, pod } of listed) {
    if (!isStuck(pod, seen)) continue;
    const [reason, message] = hindrance(name, seen, pod);
    return { phase: phaseOf(pod), reason, message };
  }
  const starting = listed.find(({ pod }) => pod?.started === false)?.pod;
  const isForeign = Object.keys(seen.attachment?.spec.mountpointS3PodAttachments ?? {}).some(
    (name) => seen.foreign.has(name),
  );
  const started = listed.length === 0 && !isForeign ? "Pending" : "Mounted";
  const phase = starting === undefined ? started : phaseOf(starting);
  if (heldBack.length > 0 && seen.place !== undefined) {
    const message = limitMessage(heldBack, seen.place);
    return { phase, reason: LIMIT_REASON, message };
  }
  return { phase, reason: phase === "Mounted" ? "Running" : "Starting", message: "" };
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

function hindrance(
  name: string,
  { key }: Observed,
  { unschedulable, cannotStart }: MountpointPod,
): [reason: "Unschedulable" | "CannotStart" | "NotStarted", message: string] {
  const [who, where] = [`Mountpoint Pod ${name}`, `on node ${key?.nodeName}`];
  if (unschedulable !== "") {
    return ["Unschedulable", `${who} finds no room ${where}: ${unschedulable}`];
  }
  if (cannotStart !== "") return ["CannotStart", `${who} cannot start ${where}: ${cannotStart}`];
  const find = `kubectl get events --all-namespaces --field-selector involvedObject.name=${name}`;
  return ["NotStarted", `${who} has not started ${where} for 15 s; its events say why: ${find}`];
}

/** Something has to be corrected, or takes too long: an image that is pulled, or a volume. */
function isStuck(pod: MountpointPod | undefined, { nowMs }: Observed): pod is MountpointPod {
  if (pod === undefined) return false;
  return isHindered(pod) || (startLeftMs(pod, nowMs) ?? 1) <= 0;
}

/** Mountpoint Pods of another driver are not ours to judge. */
function listedIn({ attachment, pods, foreign }: Observed) {
  const listed = Object.entries(attachment?.spec.mountpointS3PodAttachments ?? {});
  return listed
    .filter(([name, entries]) => entries.length > 0 && !foreign.has(name))
    .map(([name, entries]) => ({
      name,
      pod: pods.get(name),
      uids: new Set(entries.map((entry) => entry.workloadPodUID)),
    }));
}

function wordsOf({ status, reason, message }: AttachmentCondition): string {
  return JSON.stringify([status, reason, message]);
}
