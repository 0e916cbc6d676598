import { isFinished } from "../kube/pod-phase.ts";
import type { KubeNode, PersistentVolume, PersistentVolumeClaim, Pod } from "../kube/resource.ts";
import type {
  AttachmentSpec,
  AttachmentStatus,
  MountpointS3PodAttachment,
} from "../volume/attachment.ts";
import {
  ANNOTATION,
  DRIVER_NAME,
  HEADROOM_GATE,
  isMountpointPodName,
  LABEL,
  MOUNTER_CONTAINER,
} from "../volume/names.ts";

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

const PULL_FAILURES: ReadonlySet<string> = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "ImageInspectError",
  "RegistryUnavailable",
  "SignatureValidationFailed",
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
  /** The kubelet has made its sandbox, which it does once all of its volumes are published. */
  readonly started: boolean;
  readonly fsGroup: string;
  readonly serviceAccountName: string;
  readonly claims: readonly string[];
  /** Claims that no container mounts; unset for none. A kubelet leaves their volumes alone. */
  readonly unmounted?: readonly string[];
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
  /** Its mounter has ended for good, whatever containers others have put beside it still do. */
  readonly finished: boolean;
  readonly terminating: boolean;
  /** If somebody has deleted it: when it should be gone. */
  readonly goneByMs?: number;
  /** Its container dies again and again, and the kubelet waits before it starts it once more. */
  readonly backingOff: boolean;
  /** Why the kubelet can't get its image or create its container; empty when it can. */
  readonly cannotStart: string;
  /** Hash of the settings that it was made with; empty before the driver noted one. */
  readonly settingsHash: string;
  /** Why the scheduler finds no room for it; empty when it does, or has not tried. */
  readonly unschedulable: string;
  /** The kubelet ended or refused it because the node shuts down. */
  readonly shutDown: boolean;
  readonly needsUnmount: boolean;
  /** When the controller asked the node to unmount, where it has noted that. */
  readonly markedMs?: number;
  readonly noNewWorkload: boolean;
  readonly driverVersion: string;
  readonly attachment: string;
  readonly generation: number;
  /** The workload that it was made for, or the first of its line. */
  readonly workloadUid: string;
  /** The mount that it serves: that of the pod it succeeds, or its own name. */
  readonly mountId: string;
  /** Of its workloads; empty before the driver noted one. */
  readonly workloadNamespace?: string;
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
  /** Mountpoint Pods that its node has told of in the status. */
  readonly reported?: readonly string[];
  /** The controller's part of it. */
  readonly status?: Pick<AttachmentStatus, "phase" | "conditions">;
}

/** A pod without claims is not a workload: undefined. */
export function workloadOf({ metadata, spec, status }: Pod): Workload | undefined {
  const { name = "", uid = "" } = metadata ?? {};
  const claims: string[] = [];
  const mounted = mountedVolumes(spec);
  const mountedClaims = new Set<string>();
  for (const volume of spec?.volumes ?? []) {
    const claim = claimNameOf(volume, name);
    if (claim === undefined) continue;
    claims.push(claim);
    if (mounted.has(volume.name)) mountedClaims.add(claim);
  }
  if (claims.length === 0) return undefined;
  const unmounted = claims.filter((claim) => !mountedClaims.has(claim));
  const fsGroup = spec?.securityContext?.fsGroup;
  return {
    uid,
    namespace: metadata?.namespace ?? "",
    name,
    nodeName: spec?.nodeName ?? "",
    ended: isFinished(status?.phase),
    terminating: metadata?.deletionTimestamp !== undefined,
    started: hasStarted(status),
    fsGroup: fsGroup === undefined ? "" : String(fsGroup),
    serviceAccountName: spec?.serviceAccountName ?? "",
    claims,
    ...(unmounted.length > 0 && { unmounted }),
    createdMs: createdMsOf(metadata),
    gated: spec?.schedulingGates?.some((gate) => gate.name === HEADROOM_GATE) ?? false,
    // Ours says whose it is. One that somebody has copied brings no priority with it.
    hadGate: uid !== "" && metadata?.labels?.[LABEL.headroomForWorkload] === uid,
  };
}

type PodSpec = NonNullable<Pod["spec"]>;

function claimNameOf(
  { name, persistentVolumeClaim, ephemeral }: NonNullable<PodSpec["volumes"]>[0],
  podName: string,
): string | undefined {
  if (persistentVolumeClaim) return persistentVolumeClaim.claimName;
  return ephemeral ? `${podName}-${name}` : undefined; // Kubernetes' rule
}

/** Names of the pod's volumes that a container of any kind mounts or has as a device. */
function mountedVolumes(spec: Pod["spec"]): ReadonlySet<string> {
  const { initContainers = [], containers = [], ephemeralContainers = [] } = spec ?? {};
  const all = [...initContainers, ...containers, ...ephemeralContainers];
  const uses = all.flatMap(({ volumeMounts = [], volumeDevices = [] }) => [
    ...volumeMounts,
    ...volumeDevices,
  ]);
  return new Set(uses.map(({ name }) => name));
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

/**
 * A Mountpoint Pod of another driver, such as the reference driver, whose pods have names of the
 * same form. This driver leaves the pod and its workloads alone.
 */
export function isForeignMountpointPod({ metadata }: Pod): boolean {
  const isOurs = metadata?.annotations?.[ANNOTATION.attachment] !== undefined;
  return !isOurs && isMountpointPodName(metadata?.name ?? "");
}

/** A pod that somebody else put into the namespace: undefined. */
export function mountpointPodOf({ metadata, spec, status }: Pod): MountpointPod | undefined {
  const annotations = metadata?.annotations ?? {};
  const labels = metadata?.labels ?? {};
  const attachment = annotations[ANNOTATION.attachment];
  if (attachment === undefined) return undefined;
  const name = metadata?.name ?? "";
  const deleted = metadata?.deletionTimestamp;
  const since = annotations[ANNOTATION.needsUnmountSince];
  const mounter = status?.containerStatuses?.find(isMounter);
  return {
    name,
    uid: metadata?.uid ?? "",
    createdMs: createdMsOf(metadata),
    scheduled: spec?.nodeName !== undefined,
    started: hasMounterStarted(status, mounter),
    finished: isFinished(status?.phase) || hasEndedBesideOthers(status?.containerStatuses),
    terminating: deleted !== undefined,
    ...(deleted !== undefined && { goneByMs: Date.parse(deleted) + DELETION_LIMIT_MS }),
    backingOff: mounter !== undefined && isBackingOff(mounter),
    cannotStart: cannotStartWhy(spec, mounter?.state?.waiting),
    settingsHash: annotations[ANNOTATION.settingsHash] ?? "",
    unschedulable: unschedulableWhy(status?.conditions ?? []),
    shutDown: SHUTDOWN_REASONS.has(status?.reason ?? ""),
    needsUnmount: annotations[ANNOTATION.needsUnmount] === "true",
    ...(since !== undefined && { markedMs: Date.parse(since) }),
    noNewWorkload: annotations[ANNOTATION.noNewWorkload] === "true",
    driverVersion: labels[LABEL.driverVersion] ?? "",
    attachment,
    generation: Number(annotations[ANNOTATION.generation] ?? 0),
    workloadUid: labels[LABEL.podUid] ?? "",
    mountId: annotations[ANNOTATION.mountId] ?? name,
    workloadNamespace: labels[LABEL.workloadNamespace] ?? "",
  };
}

/** The phase alone stays Pending while an injected container beside the mounter cannot start. */
function hasMounterStarted(status: Pod["status"], mounter: ContainerStatus | undefined): boolean {
  const { state, lastState } = mounter ?? {};
  const hasRun = state?.running ?? state?.terminated ?? lastState?.terminated;
  const isPending = status?.phase === undefined || status.phase === "Pending";
  return !isPending || hasRun !== undefined;
}

/**
 * The mounter has ended for good and another container goes on, so that the kubelet never reports
 * the phase Succeeded. Otherwise it does so a moment later, and the API server removes such a pod
 * at once; one that is deleted before waits for the kubelet, which takes a second longer.
 */
function hasEndedBesideOthers(
  containers: readonly (ContainerStatus & { readonly name: string })[] = [],
): boolean {
  const hasEnded = containers.find(isMounter)?.state?.terminated?.exitCode === 0;
  return hasEnded && containers.some(({ state }) => state?.terminated === undefined);
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
    ...(Object.keys(mountpointPods).length > 0 && { reported: Object.keys(mountpointPods) }),
    ...(status && { status: ours }),
  };
}

/**
 * Kubelets report PodReadyToStartContainers from Kubernetes 1.29 on; it is False again after a
 * reboot, when the volumes are about to be published once more. Without the condition only a
 * container that runs now proves that the volumes are there.
 */
function hasStarted(status: Pod["status"]): boolean {
  const { conditions = [], initContainerStatuses = [], containerStatuses = [] } = status ?? {};
  const sandbox = conditions.find(({ type }) => type === "PodReadyToStartContainers");
  if (sandbox !== undefined) return sandbox.status === "True";
  const containers: readonly ContainerStatus[] = [...initContainerStatuses, ...containerStatuses];
  return containers.some(({ state }) => state?.running !== undefined);
}

interface Waiting {
  readonly reason?: string;
  readonly message?: string;
}

interface ContainerStatus {
  readonly restartCount?: number;
  readonly state?: {
    readonly running?: object;
    readonly waiting?: Waiting;
    readonly terminated?: { readonly exitCode?: number };
  };
  readonly lastState?: { readonly terminated?: object };
}

/**
 * The kubelet lets a container wait that has failed before. It says so ten seconds late, but who
 * has ended in failure for the second time is about to.
 */
function isBackingOff({ restartCount = 0, state }: ContainerStatus): boolean {
  const { waiting, terminated } = state ?? {};
  const endedAgain = restartCount > 0 && terminated !== undefined && terminated.exitCode !== 0;
  return endedAgain || waiting?.reason === "CrashLoopBackOff";
}

function isMounter({ name }: { readonly name: string }): boolean {
  return name === MOUNTER_CONTAINER;
}

/**
 * The words of the kubelet change with each attempt (ErrImagePull, ImagePullBackOff), and each
 * change would be written to the attachment's status: so the words here name the cause alone.
 */
function cannotStartWhy(spec: Pod["spec"], waiting: Waiting | undefined): string {
  const image = spec?.containers.find(isMounter)?.image ?? "";
  const { reason = "", message = "" } = waiting ?? {};
  if (PULL_FAILURES.has(reason)) return `image ${image} cannot be pulled`;
  if (reason === "InvalidImageName") return `"${image}" is not the name of an image`;
  if (reason === "ErrImageNeverPull") return `image ${image} is not on the node, pull policy Never`;
  if (reason === "CreateContainerError") return "its container cannot be created";
  if (reason !== "CreateContainerConfigError") return "";
  return `its container cannot be created: ${message}`;
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
