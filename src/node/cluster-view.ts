import type { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { isFinished } from "../kube/pod-phase.ts";
import { PODS } from "../kube/resource.ts";
import type { Pod } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { ATTACHMENTS, LIMIT_REASON, mountpointPodOf, optionListOf } from "../volume/attachment.ts";
import type { AttachmentSpec, MountpointS3PodAttachment } from "../volume/attachment.ts";
import { hasOption } from "../volume/mount-options.ts";
import { ANNOTATION, DRIVER_NAME } from "../volume/names.ts";
import { problemOf } from "./pod-problem.ts";

const CRD_NAME = `${ATTACHMENTS.plural}.${DRIVER_NAME}`;
const REPAIR = "run `helm upgrade s3csi deploy/chart --namespace kube-system --reuse-values`";

/** A Mountpoint Pod of this node, by what the API server says: the pod itself is never asked. */
export interface MountpointPod {
  readonly name: string;
  readonly uid: string;
  /** The mount it serves; a successor pod serves the mount of the one before it. */
  readonly mountId: string;
  /** That lists it. */
  readonly attachment: string;
  /** Of several pods of one mount, the last is the one to serve it. */
  readonly generation: number;
  readonly phase: string;
  readonly needsUnmount: boolean;
  readonly leaving: boolean;
}

/** Which pod serves a workload's volume. */
export interface Assignment {
  readonly attachment: string;
  readonly spec: AttachmentSpec;
  readonly pod: string;
}

/** Whose volume: what the kubelet knows of it. */
export interface Claimant {
  readonly workloadUid: string;
  readonly volumeId: string;
  readonly pvName: string;
}

export interface ClusterViewOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly namespace: string;
  readonly log: Log;
}

/** A pod of this node. */
export interface NodePod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** It is being deleted, or has ended. */
  readonly leaving: boolean;
  /** Its containers have ended for good: the kubelet unmounts its volumes. */
  readonly finished: boolean;
  readonly mountpoint: MountpointPod | undefined;
}

/** What the node service knows of the cluster: its own attachments and pods, no more. */
export class ClusterView {
  readonly #options: ClusterViewOptions;
  readonly #attachments: WatchedList<MountpointS3PodAttachment, MountpointS3PodAttachment>;
  readonly #pods: WatchedList<NodePod, Pod>;

  constructor(options: ClusterViewOptions) {
    this.#options = options;
    const { client, nodeName, namespace, log } = options;
    const selection = { fieldSelector: `spec.nodeName=${nodeName}` };
    this.#attachments = new WatchedList({
      client,
      log,
      resource: ATTACHMENTS,
      selection,
      project: (raw: MountpointS3PodAttachment) => raw,
    });
    this.#pods = new WatchedList({
      client,
      log,
      resource: PODS,
      selection,
      project: (raw: Pod) => projectPod(raw, namespace),
    });
  }

  /** Follows the cluster until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#attachments.start(signal), this.#pods.start(signal)]);
  }

  get synced(): Promise<unknown> {
    return Promise.all([this.#attachments.synced, this.#pods.synced]);
  }

  /**
   * Resolves also where the API server does not know attachments: without the CRD there are none,
   * and volumes that are mounted still have to be unmounted.
   */
  get answered(): Promise<unknown> {
    return Promise.all([this.#attachments.answered, this.#pods.synced]);
  }

  /** The reason why attachments are not known, and the remedy. */
  attachmentsProblem(): string | undefined {
    const { fault } = this.#attachments;
    return fault === undefined ? undefined : attachmentsProblemOf(fault);
  }

  /** Whether a Mountpoint Pod of this driver is assigned, as far as the watches have told. */
  isAssigned(claimant: Claimant): boolean {
    const assignment = this.#assignmentOf(claimant);
    return assignment !== undefined && !this.#isForeign(assignment.pod);
  }

  /** A pod that the reference driver has made, or another. */
  #isForeign(podName: string): boolean {
    const home = this.#options.namespace;
    return this.#pods.values().some(({ namespace, name, mountpoint }) => {
      return namespace === home && name === podName && mountpoint === undefined;
    });
  }

  /** The controller's words on why a workload's volume gets no Mountpoint Pod for now. */
  heldBackWhy({ volumeId, pvName }: Claimant): string | undefined {
    for (const { spec, status } of this.#attachments.values()) {
      if (spec.volumeID !== volumeId || spec.persistentVolumeName !== pvName) continue;
      const found = status?.conditions?.find(({ reason }) => reason === LIMIT_REASON);
      if (found !== undefined) return found.message;
    }
    return undefined;
  }

  /** Each change of an attachment of this node. */
  onAttachmentChange(listener: () => void): Disposable {
    return this.#attachments.onChange(listener);
  }

  /** The assignment of a workload's volume, when the controller has made it. */
  untilAssigned(claimant: Claimant, signal: AbortSignal): Promise<Assignment> {
    return this.#attachments.until(() => this.#assignmentOf(claimant), signal);
  }

  /** Resolves when the workload is served by another pod than this one. */
  async untilMoved(claimant: Claimant, pod: string, signal: AbortSignal): Promise<void> {
    await this.#attachments.until(() => {
      const assignment = this.#assignmentOf(claimant);
      return assignment !== undefined && assignment.pod !== pod ? true : undefined;
    }, signal);
  }

  /** The pod, once the scheduler has put it on this node. */
  untilScheduled(podName: string, signal: AbortSignal): Promise<MountpointPod> {
    const isIt = (pod: MountpointPod) => pod.name === podName && !pod.leaving;
    return this.#pods.until(() => this.pods().find(isIt), signal);
  }

  /**
   * Tells why a Mountpoint Pod does not run, in the words of scheduler and kubelet, and each time
   * that changes. A pod that is not scheduled yet is no pod of this node, so its name selects it.
   */
  async followProblem(
    podName: string,
    told: (problem: string | undefined) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, namespace, log } = this.#options;
    const list = new WatchedList({
      client,
      log,
      resource: PODS,
      selection: { namespace, fieldSelector: `metadata.name=${podName}` },
      project: (pod: Pod) => pod,
      isTemporary: true,
    });
    const look = () => {
      const [pod] = list.values();
      told(pod === undefined ? "it is gone" : problemOf(pod));
    };
    list.onChange(look);
    void list.synced.then(look);
    await list.start(signal);
  }

  pods(): MountpointPod[] {
    const all = Array.from(this.#pods.values(), ({ mountpoint }) => mountpoint);
    return all.filter((pod) => pod !== undefined);
  }

  /** Whether the mount of a Mountpoint Pod is signed with the driver's keys, as far as is known. */
  usesDriverKeys({ attachment }: MountpointPod): boolean {
    const spec = this.#attachments.get(attachment)?.spec;
    if (spec?.authenticationSource !== "driver") return false;
    return !hasOption(optionListOf(spec), "no-sign-request");
  }

  /** A pod of this node, if the API server has told of it: the kubelet may know it before us. */
  pod(podUid: string): NodePod | undefined {
    return this.#pods.values().find(({ uid }) => uid === podUid);
  }

  /** Resolves when a pod is being deleted or has ended. One that was here may go all at once. */
  async untilLeaving(podUid: string, signal: AbortSignal): Promise<void> {
    let wasHere = false;
    await this.#pods.until(() => {
      const pod = this.pod(podUid);
      const isLeaving = pod === undefined ? wasHere : pod.leaving;
      wasHere ||= pod !== undefined;
      return isLeaving ? true : undefined;
    }, signal);
  }

  /** Pods of this node whose containers have ended for good, by UID. */
  finishedPods(): Iterable<string> {
    const finished = this.#pods.values().filter((pod) => pod.finished);
    return finished.map(({ uid }) => uid);
  }

  /** Each pod of this node that finishes, or is deleted without having been seen to. */
  onPodFinished(listener: (podUid: string) => void): Disposable {
    return this.#pods.onChange((_key, now, before) => {
      if (before !== undefined && before.uid !== now?.uid) listener(before.uid);
      if (now?.finished === true) listener(now.uid);
    });
  }

  /** Each change of a pod of this node. */
  onPodChange(listener: () => void): Disposable {
    return this.#pods.onChange(listener);
  }

  /** Each change of a Mountpoint Pod of this node: workloads come and go more often. */
  onMountpointPodChange(listener: () => void): Disposable {
    return this.#pods.onChange((_key, now, before) => {
      if ((now ?? before)?.mountpoint !== undefined) listener();
    });
  }

  #assignmentOf({ workloadUid, volumeId, pvName }: Claimant): Assignment | undefined {
    for (const { metadata, spec } of this.#attachments.values()) {
      if (spec.volumeID !== volumeId || spec.persistentVolumeName !== pvName) continue;
      const pod = mountpointPodOf(spec, workloadUid);
      if (pod !== undefined) return { attachment: metadata.name, spec, pod };
    }
    return undefined;
  }
}

/** The first words are quoted by guides of the reference driver. */
function attachmentsProblemOf({ kind, message }: Failure): string {
  const words = `Failed to list MountpointS3PodAttachments: ${message}`;
  if (kind === "absent") return `${words}; the CRD ${CRD_NAME} is missing: ${REPAIR}`;
  if (kind === "denied") return `${words}; the node service lacks rights: ${REPAIR}`;
  return words;
}

/** The one that is to serve a mount comes first: it has replaced the others. */
export function byGenerationDown(one: MountpointPod, other: MountpointPod): number {
  return other.generation - one.generation;
}

/** Its container will not run again. */
export function isOver({ phase }: MountpointPod): boolean {
  return isFinished(phase);
}

function projectPod(pod: Pod, namespace: string): NodePod | undefined {
  const { metadata } = pod;
  if (metadata?.uid === undefined) return undefined;
  const finished = isFinished(pod.status?.phase);
  const leaving = finished || metadata.deletionTimestamp !== undefined;
  // Anybody may write our annotations in a namespace of their own: there they mean nothing.
  const mountpoint = metadata.namespace === namespace ? mountpointOf(pod) : undefined;
  const { uid, name = "", namespace: home = "" } = metadata;
  return { namespace: home, name, uid, leaving, finished, mountpoint };
}

function mountpointOf({ metadata, status }: Pod): MountpointPod | undefined {
  const { name, uid, annotations = {} } = metadata ?? {};
  if (name === undefined || uid === undefined) return undefined;
  const attachment = annotations[ANNOTATION.attachment];
  if (attachment === undefined) return undefined;
  return {
    name,
    uid,
    attachment,
    mountId: annotations[ANNOTATION.mountId] ?? name,
    generation: Number(annotations[ANNOTATION.generation] ?? 0),
    phase: status?.phase ?? "Pending",
    needsUnmount: annotations[ANNOTATION.needsUnmount] === "true",
    leaving: metadata?.deletionTimestamp !== undefined,
  };
}
