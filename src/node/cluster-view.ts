import type { Log } from "../base/log.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PODS } from "../kube/resource.ts";
import type { Pod } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { ATTACHMENTS, mountpointPodOf } from "../volume/attachment.ts";
import type { AttachmentSpec, MountpointS3PodAttachment } from "../volume/attachment.ts";
import { ANNOTATION, LABEL, mountpointPodNameOf } from "../volume/names.ts";

/** A Mountpoint Pod of this node, by what the API server says: the pod itself is never asked. */
export interface MountpointPod {
  readonly name: string;
  readonly uid: string;
  /** The mount it serves; a successor pod serves the mount of the one before it. */
  readonly mountId: string;
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

export interface ClusterViewOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly namespace: string;
  readonly log: Log;
}

/** What the node service knows of the cluster: its own attachments and Mountpoint Pods, no more. */
export class ClusterView {
  readonly #attachments: WatchedList<MountpointS3PodAttachment, MountpointS3PodAttachment>;
  readonly #pods: WatchedList<MountpointPod, Pod>;

  constructor({ client, nodeName, namespace, log }: ClusterViewOptions) {
    const fieldSelector = `spec.nodeName=${nodeName}`;
    this.#attachments = new WatchedList({
      client,
      log,
      resource: ATTACHMENTS,
      selection: { fieldSelector },
      project: (raw: MountpointS3PodAttachment) => raw,
    });
    this.#pods = new WatchedList({
      client,
      log,
      resource: PODS,
      selection: { namespace, fieldSelector },
      project: projectPod,
    });
  }

  /** Follows the cluster until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#attachments.start(signal), this.#pods.start(signal)]);
  }

  get synced(): Promise<unknown> {
    return Promise.all([this.#attachments.synced, this.#pods.synced]);
  }

  /** The assignment of a workload's volume, when the controller has made it. */
  untilAssigned(
    workloadUid: string,
    volumeId: string,
    pvName: string,
    signal: AbortSignal,
  ): Promise<Assignment> {
    return this.#attachments.until((list) => {
      for (const { metadata, spec } of list.values()) {
        if (spec.volumeID !== volumeId || spec.persistentVolumeName !== pvName) continue;
        const pod = mountpointPodOf(spec, workloadUid);
        if (pod !== undefined) return { attachment: metadata.name, spec, pod };
      }
      return undefined;
    }, signal);
  }

  /** The pod, once the scheduler has put it on this node. */
  untilScheduled(podName: string, signal: AbortSignal): Promise<MountpointPod> {
    const isIt = (pod: MountpointPod) => pod.name === podName && !pod.leaving;
    return this.#pods.until((list) => list.values().find(isIt), signal);
  }

  pods(): Iterable<MountpointPod> {
    return this.#pods.values();
  }

  /** Each change of a Mountpoint Pod; `gone` when it is there no more. */
  onPodChange(listener: (pod: MountpointPod, gone: boolean) => void): Disposable {
    return this.#pods.onChange((_key, now, before) => {
      const pod = now ?? before;
      if (pod !== undefined) listener(pod, now === undefined);
    });
  }
}

function projectPod({ metadata, status }: Pod): MountpointPod | undefined {
  const workloadUid = metadata?.labels?.[LABEL.podUid];
  const pvName = metadata?.annotations?.[ANNOTATION.volumeName];
  if (metadata?.name === undefined || metadata.uid === undefined) return undefined;
  if (workloadUid === undefined || pvName === undefined) return undefined;
  return {
    name: metadata.name,
    uid: metadata.uid,
    mountId: mountpointPodNameOf(workloadUid, pvName),
    phase: status?.phase ?? "Pending",
    needsUnmount: metadata.annotations?.[ANNOTATION.needsUnmount] === "true",
    leaving: metadata.deletionTimestamp !== undefined,
  };
}
