import { unless } from "../base/unless.ts";
import type { Log } from "../base/log.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { NAMESPACES, PODS } from "../kube/resource.ts";
import type { Namespace, Pod } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";

export type OwnerReference = NonNullable<NonNullable<Pod["metadata"]>["ownerReferences"]>[0];

/**
 * `kubectl drain` refuses pods without a controller unless it is forced. The owner of the driver's
 * pods is the namespace that they are in: it is the one object that lives exactly as long as they
 * may. A Node does not, since one that registers anew is another one, nor does an attachment, since
 * a pod has uploads to complete when its attachment is deleted already. Without blockOwnerDeletion,
 * for which an admission plug-in of OpenShift wants a right on namespaces.
 */
export function ownerOf({ metadata }: Namespace): OwnerReference | undefined {
  const { name, uid } = metadata ?? {};
  if (name === undefined || uid === undefined) return undefined;
  return { apiVersion: "v1", kind: "Namespace", name, uid, controller: true };
}

/** The metadata of a pod with this owner; without one, it is adopted later. */
export function ownedBy(owner: OwnerReference | undefined) {
  return owner === undefined ? {} : { ownerReferences: [owner] };
}

/** A pod of ours that nobody owns yet. */
export interface UnownedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Pods of earlier releases have no owner; nor have those that are going, which need none. */
export function unownedPodOf({ metadata }: Pod): UnownedPod | undefined {
  const {
    namespace = "",
    name = "",
    uid = "",
    deletionTimestamp,
    ownerReferences,
  } = metadata ?? {};
  if (deletionTimestamp !== undefined || (ownerReferences?.length ?? 0) > 0) return undefined;
  return { namespace, name, uid };
}

export interface PodOwnerOptions {
  readonly client: KubeClient;
  /** The namespace of the driver's pods. */
  readonly namespace: string;
  readonly log: Log;
  /** Has `work` called for a pod's key, by one at a time, and again when it fails. */
  readonly enqueue: (key: string) => void;
}

/** Knows the owner of the driver's pods, and gives it to those that have none. */
export class PodOwner {
  readonly #options: PodOwnerOptions;
  readonly #namespaces: WatchedList<OwnerReference, Namespace>;
  readonly #unowned = new Map<string, UnownedPod>();

  constructor(options: PodOwnerOptions) {
    this.#options = options;
    const { client, namespace, log, enqueue } = options;
    this.#namespaces = new WatchedList({
      client,
      log,
      resource: NAMESPACES,
      selection: { fieldSelector: `metadata.name=${namespace}` },
      project: ownerOf,
      isTemporary: true, // volumes are served without it
    });
    this.#namespaces.onChange(() => {
      for (const key of this.#unowned.keys()) enqueue(key);
    });
  }

  /** Undefined while it is not known: pods are made all the same. */
  get current(): OwnerReference | undefined {
    return this.#namespaces.get(this.#options.namespace);
  }

  /** Resolves when the signal has aborted. Rejects only for a bug. */
  follow(signal: AbortSignal): Promise<void> {
    return this.#namespaces.start(signal);
  }

  podChanged(key: string, now: UnownedPod | undefined): void {
    if (now === undefined) return void this.#unowned.delete(key);
    this.#unowned.set(key, now);
    this.#options.enqueue(key);
  }

  async work(key: string, signal: AbortSignal): Promise<void> {
    const [pod, owner] = [this.#unowned.get(key), this.current];
    if (pod === undefined || owner === undefined) return;
    const { namespace, name, uid } = pod;
    const patch = { metadata: { uid, ...ownedBy(owner) } };
    const { client, log } = this.#options;
    await unless("absent", client.patch(PODS, { namespace, name }, patch, signal));
    log.info({ pod: name, owner: owner.name }, "pod has an owner");
  }
}
