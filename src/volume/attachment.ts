import { DRIVER_NAME, sha224 } from "./names.ts";

export const ATTACHMENT_API_VERSION = `${DRIVER_NAME}/v2`;
export const ATTACHMENT_KIND = "MountpointS3PodAttachment";
/** The condition's reason where workloads wait since their namespace has reached its limit. */
export const LIMIT_REASON = "NamespaceLimitReached";

/** A PV's mount options as an attachment stores them. */
export interface JoinedOptions {
  /** Joined by commas, for people and field selectors. */
  readonly mountOptions: string;
  /** Present where an option contains a comma, since the joined text is ambiguous then. */
  readonly mountOptionList?: readonly string[];
}

/** Workloads that agree on all of this share one Mountpoint Pod. Unset is the empty string. */
export interface SharingKey extends JoinedOptions {
  readonly nodeName: string;
  readonly persistentVolumeName: string;
  readonly volumeID: string;
  readonly workloadFSGroup: string;
  readonly authenticationSource: string;
  /** The two name the workload's identity, and are empty where it takes no part in sharing. */
  readonly workloadNamespace: string;
  readonly workloadServiceAccountName: string;
}

export interface WorkloadAttachment {
  readonly workloadPodUID: string;
  /** RFC 3339: when the workload came to this Mountpoint Pod. */
  readonly attachmentTime: string;
}

/** Mountpoint Pod name -> who is on it. An empty list: the pod is being let go, nobody may join. */
export type Attachments = Readonly<Record<string, readonly WorkloadAttachment[]>>;

/** Mountpoint Pod name -> the mount that it serves, where that is not the pod's own name. */
export type MountIds = Readonly<Record<string, string>>;

/** The part of a spec that changes, always together: the rest is the sharing key. */
export interface AttachmentLists {
  readonly attachments: Attachments;
  readonly mountIds: MountIds;
}

/** As stored: the optional fields are absent rather than empty. */
export interface AttachmentSpec extends JoinedOptions {
  readonly nodeName: string;
  readonly persistentVolumeName: string;
  readonly volumeID: string;
  readonly workloadFSGroup: string;
  readonly authenticationSource?: string;
  readonly workloadNamespace?: string;
  readonly workloadServiceAccountName?: string;
  readonly mountpointS3PodAttachments: Attachments;
  /** Kept here too, since a successor must know the mount of a pod that has vanished. */
  readonly mountIDs?: MountIds;
}

/**
 * Two writers, each with fields of its own: the controller phase and conditions, the node service
 * of the attachment's node mountpointPods. Both send merge patches of their part and no more.
 */
export interface AttachmentStatus {
  /** Absent before the first word on it: pending, and nothing to tell. */
  readonly phase?: "Pending" | "Mounted" | "Recovering" | "Failed";
  readonly conditions?: readonly AttachmentCondition[];
  readonly mountpointPods?: Readonly<Record<string, MountpointPodStatus>>;
}

export interface AttachmentCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** Written by the node service; the controller removes those of pods that are gone. */
export interface MountpointPodStatus {
  readonly engineVersion?: string;
  readonly restartsSurvived?: number;
  readonly lastError?: string;
}

/** A MountpointS3PodAttachment as it travels. */
export interface MountpointS3PodAttachment {
  readonly apiVersion: typeof ATTACHMENT_API_VERSION;
  readonly kind: typeof ATTACHMENT_KIND;
  readonly metadata: {
    readonly name: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec: AttachmentSpec;
  readonly status?: AttachmentStatus;
}

/** Where the API server keeps them, in the shape of a kube Resource (this room knows none). */
export const ATTACHMENTS: {
  readonly prefix: string;
  readonly plural: string;
  readonly of?: MountpointS3PodAttachment;
} = { prefix: `/apis/${ATTACHMENT_API_VERSION}`, plural: "mountpoints3podattachments" };

/** The inverse is optionListOf(). */
export function joinedOptionsOf(list: readonly string[]): JoinedOptions {
  const isAmbiguous = list.some((option) => option.includes(","));
  return { mountOptions: list.join(","), ...(isAmbiguous && { mountOptionList: list }) };
}

export function optionListOf({ mountOptions, mountOptionList }: JoinedOptions): readonly string[] {
  if (mountOptionList !== undefined) return mountOptionList;
  return mountOptions === "" ? [] : mountOptions.split(",");
}

/**
 * Deterministic: two writers of one sharing key meet at one object. The PV's UID takes part, so
 * that a PV made again under an old name never joins the mount of the old one. Options without a
 * comma inside take part as the joined text: volumes mounted by release 0.1.0 keep their names.
 */
export function attachmentNameOf(key: SharingKey, pvUid: string): string {
  const parts = [
    key.nodeName,
    key.persistentVolumeName,
    key.volumeID,
    key.mountOptionList ?? key.mountOptions, // in JSON, a list never equals a text
    key.workloadFSGroup,
    key.authenticationSource,
    key.workloadNamespace,
    key.workloadServiceAccountName,
    pvUid,
  ];
  return `s3pa-${sha224(JSON.stringify(parts))}`; // JSON keeps the borders between the parts
}

export function attachmentSpecOf(key: SharingKey, lists: AttachmentLists): AttachmentSpec {
  const { authenticationSource, workloadNamespace, workloadServiceAccountName, ...rest } = key;
  return {
    ...rest,
    ...(authenticationSource === "" ? {} : { authenticationSource }),
    ...(workloadNamespace === "" ? {} : { workloadNamespace }),
    ...(workloadServiceAccountName === "" ? {} : { workloadServiceAccountName }),
    mountpointS3PodAttachments: lists.attachments,
    ...(Object.keys(lists.mountIds).length === 0 ? {} : { mountIDs: lists.mountIds }),
  };
}

/** The Mountpoint Pod that serves a workload, if the controller has assigned one. */
export function mountpointPodOf(spec: AttachmentSpec, workloadUid: string): string | undefined {
  for (const [pod, workloads] of Object.entries(spec.mountpointS3PodAttachments)) {
    if (workloads.some((workload) => workload.workloadPodUID === workloadUid)) return pod;
  }
  return undefined;
}

/** The same workloads on the same pods, whenever they came. */
export function isSameLists(a: Attachments, b: Attachments): boolean {
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => {
    const [left = [], right] = [a[name], b[name]];
    if (right === undefined || left.length !== right.length) return false;
    return left.every((entry, i) => entry.workloadPodUID === right[i]?.workloadPodUID);
  });
}
