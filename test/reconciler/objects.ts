import { Failure } from "../../src/base/failure.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { EVENTS, NODES, PODS, PVCS, PVS } from "../../src/kube/resource.ts";
import type { KubeObject, Pod, Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import type { MountpointPodSettings } from "../../src/reconciler/mountpoint-pod.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import { DRIVER_NAME } from "../../src/volume/names.ts";
import { POD_POLICY } from "../../src/volume/pod-settings.ts";
import { createLog } from "../../src/base/pino-log.ts";

export const NODE = "node-1";
/** In place of a node's name. */
export const UNSCHEDULED = "";
export const WORKLOADS = "default";
export const MOUNTPOINTS = "mount-s3";
export const log = createLog("error", { role: "test" });

const SERVICE_ACCOUNTS: Resource<KubeObject> = { prefix: "/api/v1", plural: "serviceaccounts" };

export const POD_SETTINGS: MountpointPodSettings = {
  namespace: MOUNTPOINTS,
  image: "s3csi:test",
  imagePullPolicy: "Never",
  imagePullSecrets: [],
  priorityClassName: "mount-s3-critical",
  preemptingPriorityClassName: "mount-s3-preempting",
  driverVersion: "0.1.0+test",
  userId: 1000,
  labels: {},
  annotations: {},
  policy: POD_POLICY,
  env: {},
  caConfigMap: "",
  engine: "s3csi",
  mountS3: { image: "s3csi-mount-s3:test", path: "/mount-s3" },
};

/** Makes the user's objects and follows the driver's. */
export class Bench {
  readonly attachments;
  readonly mountpointPods;
  readonly #admin: KubeClient;
  readonly #signal: AbortSignal;

  constructor(admin: KubeClient, signal: AbortSignal) {
    this.#admin = admin;
    this.#signal = signal;
    this.attachments = new WatchedList({
      client: admin,
      log,
      resource: ATTACHMENTS,
      project: (object) => object,
    });
    this.mountpointPods = new WatchedList({
      client: admin,
      log,
      resource: PODS,
      selection: { namespace: MOUNTPOINTS },
      project: (pod) => pod,
    });
  }

  async start(): Promise<void> {
    const lists = [this.attachments, this.mountpointPods];
    for (const list of lists) list.start(this.#signal).catch((error: unknown) => log.error(error));
    await Promise.all(lists.map((list) => list.synced));
    const accounts = new WatchedList({
      client: this.#admin,
      log,
      resource: SERVICE_ACCOUNTS,
      project: (account) => account,
    });
    accounts.start(this.#signal).catch((error: unknown) => log.error(error));
    await accounts.until((list) => list.get(`${WORKLOADS}/default`), this.#signal);
    await accounts.until((list) => list.get(`${MOUNTPOINTS}/default`), this.#signal);
    const node = { metadata: { name: NODE }, spec: {} };
    await this.#admin.create(NODES, node, this.#signal);
  }

  /**
   * A static PV and its claim, both under one name. Kubernetes binds at once what it learns of in
   * this order; a claim that comes first is bound up to 15 s later.
   */
  async volume(
    name: string,
    mountOptions: string[] = [],
    volumeAttributes: Record<string, string> = { bucketName: "bucket" },
    volumeHandle = `${name}-handle`,
    {
      claimFirst = false,
      namespace = WORKLOADS,
      claimName = claimNameOf(name),
    }: { claimFirst?: boolean; namespace?: string; claimName?: string } = {},
  ): Promise<void> {
    const capacity = { storage: "1Gi" };
    const volume = {
      metadata: { name },
      spec: {
        capacity,
        mountOptions,
        accessModes: ["ReadWriteMany"],
        storageClassName: "",
        claimRef: { namespace, name: claimName },
        csi: {
          driver: DRIVER_NAME,
          volumeHandle,
          volumeAttributes,
        },
      },
    };
    const claim = {
      metadata: { name: claimName, namespace },
      spec: {
        accessModes: ["ReadWriteMany"],
        storageClassName: "",
        volumeName: name,
        resources: { requests: capacity },
      },
    };
    const create = [
      () => this.#admin.create(PVS, volume, this.#signal),
      () => this.#admin.create(PVCS, claim, this.#signal),
    ];
    for (const one of claimFirst ? create.toReversed() : create) await one();
  }

  /** As the scheduler leaves it; no kubelet is there to run it. */
  async workload(
    name: string,
    volumes: string | readonly string[],
    { fsGroup, nodeName = NODE }: { fsGroup?: number; nodeName?: string } = {},
  ): Promise<string> {
    const names = typeof volumes === "string" ? [volumes] : volumes;
    const pod: Pod = {
      metadata: { name, namespace: WORKLOADS },
      spec: {
        ...(nodeName !== UNSCHEDULED && { nodeName }),
        ...(fsGroup !== undefined && { securityContext: { fsGroup } }),
        tolerations: [{ operator: "Exists" }],
        containers: [
          {
            name: "app",
            image: "app",
            volumeMounts: names.map((_, i) => ({ name: `s3-${i}`, mountPath: `/s3-${i}` })),
          },
        ],
        volumes: names.map((volume, i) => ({
          name: `s3-${i}`,
          persistentVolumeClaim: { claimName: claimNameOf(volume) },
        })),
      },
    };
    const { metadata } = await this.#admin.create(PODS, pod, this.#signal);
    return metadata?.uid ?? "";
  }

  async uidOf(workload: string): Promise<string> {
    const place = { namespace: WORKLOADS, name: workload };
    const { metadata } = await this.#admin.get(PODS, place, this.#signal);
    return metadata?.uid ?? "";
  }

  async removeWorkload(name: string): Promise<void> {
    const place = { namespace: WORKLOADS, name };
    await this.#admin.delete(PODS, place, { gracePeriodSeconds: 0 }, this.#signal);
  }

  /** What the scheduler does. */
  async schedule(namespace: string, name: string, nodeName = NODE): Promise<void> {
    const bindings: Resource<KubeObject & { target: object }> = {
      prefix: "/api/v1",
      plural: `pods/${name}/binding`,
    };
    const target = { kind: "Node", name: nodeName };
    const binding = { metadata: { name, namespace }, target };
    await this.#admin.create(bindings, binding, this.#signal);
  }

  /** What scheduler and kubelet do for a Mountpoint Pod. */
  async runMountpointPod(name: string, nodeName = NODE): Promise<void> {
    await this.schedule(MOUNTPOINTS, name, nodeName);
    await this.endMountpointPod(name, "Running");
  }

  async endMountpointPod(name: string, phase: string): Promise<void> {
    const place = { namespace: MOUNTPOINTS, name };
    await this.#admin.patchStatus(PODS, place, { status: { phase } }, this.#signal);
  }

  /** What its kubelet says of a container that dies again and again. */
  async crashMountpointPod(name: string): Promise<void> {
    const waiting = { reason: "CrashLoopBackOff" };
    const container = { name: "mountpoint", ready: false, restartCount: 2, image: "", imageID: "" };
    const containerStatuses = [{ ...container, state: { waiting } }];
    const place = { namespace: MOUNTPOINTS, name };
    await this.#admin.patchStatus(PODS, place, { status: { containerStatuses } }, this.#signal);
  }

  /** What the scheduler says when it tried in vain. */
  async noRoomFor(name: string, message: string): Promise<void> {
    const failed = { type: "PodScheduled", status: "False", reason: "Unschedulable", message };
    const place = { namespace: MOUNTPOINTS, name };
    const patch = { status: { conditions: [failed] } };
    await this.#admin.patchStatus(PODS, place, patch, this.#signal);
  }

  async removeMountpointPod(name: string): Promise<void> {
    const place = { namespace: MOUNTPOINTS, name };
    await this.#admin.delete(PODS, place, { gracePeriodSeconds: 0 }, this.#signal);
  }

  /** The attachment that serves a workload, with the Mountpoint Pod's name. */
  async served(uid: string): Promise<{ attachment: string; pod: string }> {
    return this.attachments.until((list) => {
      for (const { metadata, spec } of list.values()) {
        for (const [pod, entries] of Object.entries(spec.mountpointS3PodAttachments)) {
          const found = entries.some((entry) => entry.workloadPodUID === uid);
          if (found) return { attachment: metadata.name, pod };
        }
      }
      return undefined;
    }, this.#signal);
  }

  /** What an event says of a workload, once there is one for this reason. */
  async told(uid: string, reason: string): Promise<string> {
    const events = new WatchedList({
      client: this.#admin,
      log,
      resource: EVENTS,
      selection: { namespace: WORKLOADS },
      project: (event) =>
        event.regarding?.uid === uid && event.reason === reason ? event.note : undefined,
    });
    const own = new AbortController();
    const following = events.start(own.signal);
    const note = await events.until((list) => Array.from(list.values())[0], this.#signal);
    own.abort();
    await following;
    return note;
  }

  async marked(pod: string): Promise<void> {
    const key = `${MOUNTPOINTS}/${pod}`;
    await this.mountpointPods.until(
      (list) => list.get(key)?.metadata?.annotations?.[`${DRIVER_NAME}/needs-unmount`],
      this.#signal,
    );
  }

  /** An attachment's lists, once they are as asked. */
  async listed(
    attachment: string,
    isIt: (uidsOf: Readonly<Record<string, readonly string[]>>) => boolean,
  ): Promise<void> {
    await this.attachments.until((list) => {
      const lists = list.get(attachment)?.spec.mountpointS3PodAttachments ?? {};
      const uids = Object.entries(lists).map(([pod, entries]) => {
        return [pod, entries.map((entry) => entry.workloadPodUID)] as const;
      });
      return isIt(Object.fromEntries(uids)) || undefined;
    }, this.#signal);
  }

  async nothingIsLeft(): Promise<void> {
    await this.attachments.until(isEmpty, this.#signal);
    await this.mountpointPods.until(isEmpty, this.#signal);
  }
}

export function claimNameOf(volume: string): string {
  return `claim-${volume}`.slice(0, 253);
}

function isEmpty(list: { values(): Iterable<unknown> }): true | undefined {
  const [first] = list.values();
  return first === undefined ? true : undefined;
}

/** A policy or limit counts from some moment after it was made: there is no event for it. */
export async function untilDenied(
  signal: AbortSignal,
  work: () => Promise<unknown>,
): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    try {
      await work();
    } catch (error) {
      if (error instanceof Failure && error.kind === "denied") return;
      throw error;
    }
  }
}
