import type { PersistentVolume, PersistentVolumeClaim, Pod } from "../kube/resource.ts";
import type { AttachmentSpec, MountpointS3PodAttachment } from "../volume/attachment.ts";
import { ANNOTATION, DRIVER_NAME, LABEL } from "../volume/names.ts";

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
  readonly needsUnmount: boolean;
  readonly noNewWorkload: boolean;
  readonly driverVersion: string;
  readonly attachment: string;
  readonly generation: number;
  /** The workload that it was made for. */
  readonly workloadUid: string;
}

export interface Attachment {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly spec: AttachmentSpec;
}

/** A pod without claims is not a workload: undefined. */
export function workloadOf({ metadata, spec, status }: Pod): Workload | undefined {
  const name = metadata?.name ?? "";
  const claims: string[] = [];
  for (const volume of spec?.volumes ?? []) {
    if (volume.persistentVolumeClaim) claims.push(volume.persistentVolumeClaim.claimName);
    else if (volume.ephemeral) claims.push(`${name}-${volume.name}`); // Kubernetes' rule
  }
  if (claims.length === 0) return undefined;
  const fsGroup = spec?.securityContext?.fsGroup;
  return {
    uid: metadata?.uid ?? "",
    namespace: metadata?.namespace ?? "",
    name,
    nodeName: spec?.nodeName ?? "",
    ended: isFinished(status?.phase),
    terminating: metadata?.deletionTimestamp !== undefined,
    fsGroup: fsGroup === undefined ? "" : String(fsGroup),
    serviceAccountName: spec?.serviceAccountName ?? "",
    claims,
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
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    createdMs: Date.parse(metadata?.creationTimestamp ?? ""),
    scheduled: spec?.nodeName !== undefined,
    started: status?.phase !== undefined && status.phase !== "Pending",
    finished: isFinished(status?.phase),
    terminating: metadata?.deletionTimestamp !== undefined,
    needsUnmount: annotations[ANNOTATION.needsUnmount] === "true",
    noNewWorkload: annotations[ANNOTATION.noNewWorkload] === "true",
    driverVersion: labels[LABEL.driverVersion] ?? "",
    attachment,
    generation: Number(annotations[ANNOTATION.generation] ?? 0),
    workloadUid: labels[LABEL.podUid] ?? "",
  };
}

export function attachmentOf({ metadata, spec }: MountpointS3PodAttachment): Attachment {
  return {
    name: metadata.name,
    uid: metadata.uid ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
    spec,
  };
}

function isFinished(phase: string | undefined): boolean {
  return phase === "Succeeded" || phase === "Failed";
}
