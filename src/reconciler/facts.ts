import { isFinished } from "../kube/pod-phase.ts";
import type { KubeNode, PersistentVolume, PersistentVolumeClaim, Pod } from "../kube/resource.ts";
import type {
  AttachmentSpec,
  AttachmentStatus,
  MountpointS3PodAttachment,
} from "../volume/attachment.ts";
import { ANNOTATION, DRIVER_NAME, HEADROOM_GATE, LABEL } from "../volume/names.ts";

/**
 * Behind the grace that a deletion gives: so long the rest of it may take. An API server that loses
 * its caller half-way leaves a pod that it calls deleted, until somebody deletes it again.
 */
const DELETION_LIMIT_MS = 10_000;
/** Why a kubelet ends what runs, and refuses what comes, while its node shuts down. */
const SHUTDOWN_REASONS: ReadonlySet<string> = new Set(["Terminated", "NodeShutdown"]);
const OFF_TAINTS: ReadonlySet<string> = new Set([
  "node.kubernetes.io/out-of-service",
  "node.cloudprovider.kubernetes.io/shutdown",
]);

/** The fields of the cluster that the reconciler reads, and no others: 10,000 pods must fit. */
export interface Workload {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Empty until the scheduler has chosen. */
  readonly nodeName: string;
  /** Succeeded or Failed: its containers will not run again. Never becomes false again. */
  readonly ended: boolean;
  readonly terminating: boolean;
  readonly fsGroup: string;
  readonly serviceAccountName: string;
  readonly claims: readonly string[];
  readonly createdMs: number;
  /** It asks for headroom, and waits for it. */
  readonly gated: boolean;
  /** It came with the gate: its Mountpoint Pods may take their place from others. */
  readonly hadGate: boolean;
}

export interface Claim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Empty until bound. */
  readonly volumeName: string;
}

export interface Volume {
  readonly name: string;
  readonly uid: string;
  readonly volumeId: string;
  readonly mountOptions: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
  /** Even an empty one, which a publish does not see. */
  readonly bringsSecret?: boolean;
  /** `namespace/name` and UID of the claim that owns it; empty while it is free. */
  readonly claimKey: string;
  readonly claimUid: string;
}

export interface MountpointPod {
  readonly name: string;
  readonly uid: string;
  readonly createdMs: number;
  readonly scheduled: boolean;
  /** As the API knows it, a little late: its container has run. */
  readonly started: boolean;
  readonly finished: boolean;
  readonly terminating: boolean;
  /** If somebody has deleted it: when it should be gone. */
  readonly goneByMs?: number;
  /** Its container dies again and again, and the kubelet waits before it starts it once more. */
  readonly backingOff: boolean;
  /** Why the scheduler finds no room for it; empty when it does, or has not tried. */
  readonly unschedulable: string;
  /** The kubelet ended or refused it because the node shuts down. */
  readonly shutDown: boolean;
  readonly needsUnmount: boolean;
  readonly noNewWorkload: boolean;
  readonly driverVersion: string;
  readonly attachment: string;
  readonly generation: number;
  /** The workload that it was made for, or the first of its line. */
  readonly workloadUid: string;
  /** The mount that it serves: that of the pod it succeeds, or its own name. */
  readonly mountId: string;
}

export interface NodeFacts {
  readonly name: string;
  readonly ready: boolean;
  /** Deleted, or its machine is switched off: nothing new will run there. */
  readonly ending: boolean;
}

export interface Attachment {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly spec: AttachmentSpec;
  /** Its node has told that an engine was lost, whether or not another goes on. */
  readonly troubled?: boolean;
  /** The controller's part of it. */
  readonly status?: Pick<AttachmentStatus, "phase" | "conditions">;
}

/** A pod without claims is not a workload: undefined. */
export function workloadOf({ metadata, spec, status }: Pod): Workload | undefined {
  const { name = "", uid = "" } = metadata ?? {};
  const claims: string[] = [];
  for (const volume of spec?.volumes ?? []) {
    if (volume.persistentVolumeClaim) claims.push(volume.persistentVolumeClaim.claimName);
    else if (volume.ephemeral) claims.push(`${name}-${volume.name}`); // Kubernetes' rule
  }
  if (claims.length === 0) return undefined;
  const fsGroup = spec?.securityContext?.fsGroup;
  return {
    uid,
    namespace: metadata?.namespace ?? "",
    name,
    nodeName: spec?.nodeName ?? "",
    ended: isFinished(status?.phase),
    terminating: metadata?.deletionTimestamp !== undefined,
    fsGroup: fsGroup === undefined ? "" : String(fsGroup),
    serviceAccountName: spec?.serviceAccountName ?? "",
    claims,
    createdMs: createdMsOf(metadata),
    gated: spec?.schedulingGates?.some((gate) => gate.name === HEADROOM_GATE) ?? false,
    // Ours says whose it is. One that somebody has copied brings no priority with it.
    hadGate: uid !== "" && metadata?.labels?.[LABEL.headroomForWorkload] === uid,
  };
}

export function claimOf({ metadata, spec }: PersistentVolumeClaim): Claim {
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    volumeName: spec?.volumeName ?? "",
  };
}

/** A volume of another driver: undefined. */
export function volumeOf({ metadata, spec }: PersistentVolume): Volume | undefined {
  if (spec?.csi?.driver !== DRIVER_NAME) return undefined;
  const claim = spec.claimRef;
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    volumeId: spec.csi.volumeHandle,
    mountOptions: spec.mountOptions ?? [],
    attributes: spec.csi.volumeAttributes ?? {},
    ...(spec.csi.nodePublishSecretRef && { bringsSecret: true }),
    claimKey: claim === undefined ? "" : `${claim.namespace ?? ""}/${claim.name ?? ""}`,
    claimUid: claim?.uid ?? "",
  };
}

/** A pod that somebody else put into the namespace: undefined. */
export function mountpointPodOf({ metadata, spec, status }: Pod): MountpointPod | undefined {
  const annotations = metadata?.annotations ?? {};
  const labels = metadata?.labels ?? {};
  const attachment = annotations[ANNOTATION.attachment];
  if (attachment === undefined) return undefined;
  const name = metadata?.name ?? "";
  const deleted = metadata?.deletionTimestamp;
  return {
    name,
    uid: metadata?.uid ?? "",
    createdMs: createdMsOf(metadata),
    scheduled: spec?.nodeName !== undefined,
    started: status?.phase !== undefined && status.phase !== "Pending",
    finished: isFinished(status?.phase),
    terminating: deleted !== undefined,
    ...(deleted !== undefined && { goneByMs: Date.parse(deleted) + DELETION_LIMIT_MS }),
    backingOff: isBackingOff(status?.containerStatuses ?? []),
    unschedulable: unschedulableWhy(status?.conditions ?? []),
    shutDown: SHUTDOWN_REASONS.has(status?.reason ?? ""),
    needsUnmount: annotations[ANNOTATION.needsUnmount] === "true",
    noNewWorkload: annotations[ANNOTATION.noNewWorkload] === "true",
    driverVersion: labels[LABEL.driverVersion] ?? "",
    attachment,
    generation: Number(annotations[ANNOTATION.generation] ?? 0),
    workloadUid: labels[LABEL.podUid] ?? "",
    mountId: annotations[ANNOTATION.mountId] ?? name,
  };
}

export function nodeOf({ metadata, spec, status }: KubeNode): NodeFacts {
  const ready = status?.conditions?.find((condition) => condition.type === "Ready");
  const off = spec?.taints?.some((taint) => OFF_TAINTS.has(taint.key)) ?? false;
  return {
    name: metadata?.name ?? "",
    ready: ready?.status === "True",
    ending: off || metadata?.deletionTimestamp !== undefined,
  };
}

export function attachmentOf({ metadata, spec, status }: MountpointS3PodAttachment): Attachment {
  const { mountpointPods = {}, ...ours } = status ?? {};
  return {
    name: metadata.name,
    uid: metadata.uid ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
    spec,
    ...(Object.keys(mountpointPods).length > 0 && { troubled: true }),
    ...(status && { status: ours }),
  };
}

interface ContainerStatus {
  readonly restartCount?: number;
  readonly state?: {
    readonly waiting?: { readonly reason?: string };
    readonly terminated?: { readonly exitCode?: number };
  };
}

/**
 * The kubelet lets a container wait that has failed before. It says so ten seconds late, but who
 * has ended in failure for the second time is about to.
 */
function isBackingOff(containers: readonly ContainerStatus[]): boolean {
  return containers.some(({ restartCount = 0, state }) => {
    const { waiting, terminated } = state ?? {};
    const endedAgain = restartCount > 0 && terminated !== undefined && terminated.exitCode !== 0;
    return endedAgain || waiting?.reason === "CrashLoopBackOff";
  });
}

interface PodCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

function unschedulableWhy(conditions: readonly PodCondition[]): string {
  const scheduled = conditions.find((condition) => condition.type === "PodScheduled");
  if (scheduled?.status !== "False" || scheduled.reason !== "Unschedulable") return "";
  return scheduled.message || "no reason given";
}

/** The API server's clock may go before ours: nothing is younger than the news of it. */
function createdMsOf(metadata: Pod["metadata"]): number {
  return Math.min(Date.parse(metadata?.creationTimestamp ?? ""), Date.now());
}
