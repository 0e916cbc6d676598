import { Failure } from "../../src/base/failure.ts";
import type { Cluster } from "../../src/reconciler/cluster.ts";
import type {
  Attachment,
  MountpointPod,
  NodeFacts,
  Volume,
  Workload,
} from "../../src/reconciler/facts.ts";
import type { HeadroomPod } from "../../src/reconciler/headroom.ts";
import type { Listeners, Told } from "../../src/reconciler/listeners.ts";
import { attachmentSpecOf } from "../../src/volume/attachment.ts";
import type { AttachmentLists, Attachments } from "../../src/volume/attachment.ts";
import { GOOD, hashOf, REQUEST } from "./settings.ts";

/** One event of one watch. */
export interface Change {
  readonly kind: Kind;
  readonly key: string;
  readonly now: Told[Kind] | undefined;
  /** `before` is what the one that is told knew last: of this kind and key too. */
  readonly tell: (listeners: Listeners, before: Told[Kind] | undefined) => void;
}

export const KINDS = ["workload", "pod", "attachment", "node", "headroom", "volume"] as const;
export type Kind = (typeof KINDS)[number];

/** An API server in memory, with its rules: unique names, UIDs, resourceVersions, preconditions. */
export class ModelApi {
  readonly workloads = new Map<string, Workload>();
  readonly pods = new Map<string, MountpointPod>();
  readonly attachments = new Map<string, Attachment>();
  readonly nodes = new Map<string, NodeFacts>();
  readonly headroom = new Map<string, HeadroomPod>();
  readonly volumes = new Map<string, Volume>();
  /** `workload volume` of those whose Mountpoint Pod has run for them. */
  readonly served = new Set<string>();
  /** UIDs of workloads on mounts of the driver's first version. */
  readonly firstVersion = new Set<string>();
  /** Workloads that a reboot has taken off such a mount. */
  readonly restarted = new Set<string>();
  /** Names of attachments that somebody has deleted, and UIDs of the workloads they listed. */
  readonly deletedByHand = new Set<string>();
  /** The driver's settings, as a controller reads them when it starts. */
  settings = GOOD;
  /** The most Mountpoint Pods of the namespace that all workloads are in. */
  limit = Infinity;
  /** The answer to a write was lost: there may be a pod that its controller does not know yet. */
  isAnswerLost = false;
  /** The nodes have room for pods with large requests. */
  isRoomy = true;
  readonly changes: Change[] = [];
  nowMs = 1_000_000_000_000;
  #count = 0;
  /** What must not happen on the way either, counted. */
  readonly harm = {
    markedInUse: 0,
    droppedLive: 0,
    needlessSuccessor: 0,
    changedMount: 0,
    /** A workload on a mount of the first version got a Mountpoint Pod, or a place on one. */
    touchedFirstVersion: 0,
    /** A Mountpoint Pod began a mount though the namespace had as many as it may. */
    overLimit: 0,
  };
  /** `workload volume` -> the mount that it was bound to first, and must keep. */
  readonly #mountOf = new Map<string, string>();
  /** Pods that were in a crash loop once: a late picture of it is a reason to replace one. */
  readonly #crashed = new Set<string>();
  /** Pods that could not start once: a reason to replace one by another with other settings. */
  readonly #hindered = new Set<string>();
  /** Pods that a controller has read as started: no settings are a reason to replace one. */
  readonly #readStarted = new Set<string>();

  nextUid(kind: string): string {
    this.#count += 1;
    return `${kind}-${this.#count}`;
  }

  putWorkload(workload: Workload): void {
    this.#put("workload", this.workloads, workload.uid, workload);
  }

  removeWorkload(uid: string): void {
    this.#put("workload", this.workloads, uid, undefined);
  }

  putNode(node: NodeFacts): void {
    this.#put("node", this.nodes, node.name, node);
  }

  removeNode(name: string): void {
    this.#put("node", this.nodes, name, undefined);
  }

  putPod(pod: MountpointPod): void {
    if (pod.backingOff) this.#crashed.add(pod.uid);
    if (!pod.started || pod.cannotStart !== "") this.#hindered.add(pod.uid);
    this.#put("pod", this.pods, pod.name, pod);
    this.#noteServed(pod.attachment);
  }

  removePod(name: string): void {
    this.#put("pod", this.pods, name, undefined);
  }

  /** The work of a node service when an engine was lost. */
  report(attachment: Attachment, pod: string): void {
    const reported = new Set(attachment.reported).add(pod);
    this.#putAttachment({ ...attachment, reported: Array.from(reported) });
  }

  /** An administrator's mistake: its workloads may be bound to any mount from now on. */
  deleteAttachmentByHand({ name, spec }: Attachment): void {
    this.deletedByHand.add(name);
    for (const { workloadPodUID: uid } of Object.values(spec.mountpointS3PodAttachments).flat()) {
      this.deletedByHand.add(uid);
      this.#mountOf.delete(`${uid} ${spec.persistentVolumeName}`);
    }
    this.#put("attachment", this.attachments, name, undefined);
  }

  /** Another request of the Mountpoint Pods that are made from now on. */
  changeVolume(name: string, request: string): void {
    const volume = this.volumes.get(name);
    if (volume === undefined) return;
    const attributes = { ...volume.attributes, [REQUEST]: request };
    this.putVolume({ ...volume, attributes });
  }

  putVolume(volume: Volume): void {
    this.#put("volume", this.volumes, volume.name, volume);
  }

  putHeadroom(pod: HeadroomPod): void {
    this.#put("headroom", this.headroom, pod.name, pod);
  }

  removeHeadroom(name: string): void {
    this.#put("headroom", this.headroom, name, undefined);
  }

  /** What a list shows: everything there is, as if it had just appeared. */
  *listed(): Generator<Change, void, undefined> {
    yield* listed("volume", this.volumes);
    yield* listed("workload", this.workloads);
    yield* listed("pod", this.pods);
    yield* listed("attachment", this.attachments);
    yield* listed("node", this.nodes);
    yield* listed("headroom", this.headroom);
  }

  /** The calls of the reconciler, atomic each, with a gate that may hold or break every one. */
  cluster(gate: <T>(call: () => T) => Promise<T>, driverVersion: string): Cluster {
    const { settings } = this;
    return {
      settingsHashFor: (_mountId, { attributes }) => hashOf(settings, attributes),
      findAttachment: (name) => gate(() => this.attachments.get(name)),
      findPod: (name) =>
        gate(() => {
          const pod = this.pods.get(name);
          if (pod?.started === true) this.#readStarted.add(pod.uid);
          return pod;
        }),
      liveUids: (nodeName) =>
        gate(() => {
          const all = Array.from(this.workloads.values());
          const live = all.filter((w) => w.nodeName === nodeName && !w.ended);
          return new Set(live.map((w) => w.uid));
        }),
      createPod: (pod, { attachment, attributes }) =>
        gate(() => {
          const { name, workloadUid, mountId, generation, workloadNamespace = "" } = pod;
          const settingsHash = hashOf(settings, attributes);
          const present = this.pods.get(name);
          if (present?.mountId === mountId && present.attachment === attachment) return;
          if (present !== undefined) throw new Failure("stale", "serves another mount");
          if (mountId !== name && this.#isServed(mountId, settingsHash))
            this.harm.needlessSuccessor += 1;
          const isNew = mountId === name && !this.#isBound(workloadUid);
          if (isNew && this.mounts().size >= this.limit) this.harm.overLimit += 1;
          const isOld = this.firstVersion.has(workloadUid);
          if (isOld && !this.deletedByHand.has(workloadUid)) this.harm.touchedFirstVersion += 1;
          this.putPod({
            name,
            generation,
            workloadUid,
            mountId,
            workloadNamespace,
            uid: this.nextUid("pod"),
            createdMs: this.nowMs,
            scheduled: false,
            started: false,
            finished: false,
            terminating: false,
            needsUnmount: false,
            noNewWorkload: false,
            driverVersion,
            attachment,
            backingOff: false,
            cannotStart: "",
            settingsHash,
            unschedulable: "",
            shutDown: false,
          });
        }),
      markPod: ({ name, uid }) =>
        gate(() => {
          const pod = this.#podOf(name, uid);
          if (pod === undefined || pod.needsUnmount) return;
          if (this.#isInUse(name)) this.harm.markedInUse += 1;
          this.putPod({ ...pod, needsUnmount: true, markedMs: this.nowMs });
        }),
      deletePod: ({ name, uid }) =>
        gate(() => {
          const pod = this.#podOf(name, uid);
          if (pod === undefined) return;
          if (pod.scheduled && !pod.finished) this.putPod({ ...pod, terminating: true });
          else this.removePod(name);
        }),
      createAttachment: (name, key, lists) =>
        gate(() => {
          if (this.attachments.has(name)) throw new Failure("stale", "exists");
          this.#countMoved(key.persistentVolumeName, lists);
          this.#countTouched(name, lists);
          this.#putAttachment({
            name,
            uid: this.nextUid("s3pa"),
            spec: attachmentSpecOf(key, lists),
          });
        }),
      updateAttachment: (attachment, lists) =>
        gate(() => {
          const stored = this.#unchanged(attachment);
          const { name, spec } = stored;
          this.#countDropped(attachment, lists.attachments);
          this.#countMoved(spec.persistentVolumeName, lists);
          this.#countTouched(name, lists);
          const { attachments: mountpointS3PodAttachments, mountIds: mountIDs } = lists;
          const next = { ...spec, mountpointS3PodAttachments, mountIDs };
          this.#putAttachment({ ...stored, spec: next });
        }),
      writeStatus: ({ attachment: { name, uid }, status, stale }) =>
        gate(() => {
          const stored = this.attachments.get(name);
          if (stored === undefined) return;
          if (stored.uid !== uid) throw new Failure("stale", "another UID");
          const reported = stored.reported?.filter((pod) => !stale.includes(pod));
          this.#putAttachment({ ...stored, status, ...(reported && { reported }) });
        }),
      deleteAttachment: (attachment) =>
        gate(() => {
          if (!this.attachments.has(attachment.name)) return;
          this.#unchanged(attachment);
          this.#countDropped(attachment, {});
          this.#put("attachment", this.attachments, attachment.name, undefined);
        }),
    };
  }

  /** Mounts that have a Mountpoint Pod, or are about to get their next one. */
  mounts(): Set<string> {
    const mounts = new Set(
      Array.from(this.pods.values())
        .filter((pod) => !pod.finished)
        .map((pod) => pod.mountId),
    );
    for (const { spec } of this.attachments.values()) {
      for (const [pod, { length }] of Object.entries(spec.mountpointS3PodAttachments)) {
        if (length > 0) mounts.add(this.pods.get(pod)?.mountId ?? spec.mountIDs?.[pod] ?? pod);
      }
    }
    return mounts;
  }

  #isBound(uid: string): boolean {
    return this.workloads.get(uid)?.started === true;
  }

  #podOf(name: string, uid: string): MountpointPod | undefined {
    const pod = this.pods.get(name);
    if (pod !== undefined && pod.uid !== uid) throw new Failure("stale", "another UID");
    return pod;
  }

  #unchanged({ name, uid, resourceVersion }: Attachment): Attachment {
    const stored = this.attachments.get(name);
    if (stored === undefined) throw new Failure("absent", "no such attachment");
    if (stored.uid !== uid || stored.resourceVersion !== resourceVersion) {
      throw new Failure("stale", "changed meanwhile");
    }
    return stored;
  }

  #isLive(uid: string): boolean {
    const workload = this.workloads.get(uid);
    return workload !== undefined && !workload.ended;
  }

  #isInUse(podName: string): boolean {
    const lists = Array.from(this.attachments.values(), ({ spec }) => spec);
    const entries = lists.flatMap((spec) => spec.mountpointS3PodAttachments[podName] ?? []);
    return entries.some((entry) => this.#isLive(entry.workloadPodUID));
  }

  #isServed(mountId: string, settingsHash: string): boolean {
    return this.pods.values().some((pod) => {
      const good = !pod.finished && !pod.terminating && !pod.needsUnmount;
      const mayBeHindered = this.#hindered.has(pod.uid) && !this.#readStarted.has(pod.uid);
      const isOutdated = mayBeHindered && pod.settingsHash !== settingsHash;
      return pod.mountId === mountId && good && !isOutdated && !this.#crashed.has(pod.uid);
    });
  }

  /** Workloads are bound to a mount: whoever serves them next must serve the same. */
  #countMoved(pvName: string, { attachments, mountIds }: AttachmentLists): void {
    for (const [podName, entries] of Object.entries(attachments)) {
      const told = mountIds[podName] ?? podName;
      const mountId = this.pods.get(podName)?.mountId ?? told;
      if (mountId !== told) this.harm.changedMount += 1;
      for (const { workloadPodUID } of entries) {
        const place = `${workloadPodUID} ${pvName}`;
        const first = this.#mountOf.getOrInsert(place, mountId);
        if (first !== mountId && this.#isLive(workloadPodUID)) this.harm.changedMount += 1;
      }
    }
  }

  /**
   * Nobody can tell whether a pod without attachment and without its workload served a third. A
   * controller that has not seen its workload restart can't tell either: the pod that another has
   * just made then looks as if its attachment had been deleted.
   */
  #countTouched(attachment: string, { attachments }: AttachmentLists): void {
    if (this.deletedByHand.has(attachment)) return;
    for (const [podName, entries] of Object.entries(attachments)) {
      const uid = this.pods.get(podName)?.workloadUid ?? "";
      if (!this.#isLive(uid) || this.restarted.has(uid)) continue;
      const touched = entries.filter((entry) => this.firstVersion.has(entry.workloadPodUID));
      this.harm.touchedFirstVersion += touched.length;
    }
  }

  #countDropped({ spec }: Attachment, next: Attachments): void {
    const kept = new Set(Object.values(next).flatMap((list) => list.map((e) => e.workloadPodUID)));
    for (const { workloadPodUID: uid } of Object.values(spec.mountpointS3PodAttachments).flat()) {
      if (this.#isLive(uid) && !kept.has(uid)) this.harm.droppedLive += 1;
    }
  }

  #noteServed(attachment: string): void {
    const spec = this.attachments.get(attachment)?.spec;
    for (const [pod, entries] of Object.entries(spec?.mountpointS3PodAttachments ?? {})) {
      if (this.pods.get(pod)?.started !== true) continue;
      const volume = spec?.persistentVolumeName ?? "";
      for (const entry of entries) this.served.add(`${entry.workloadPodUID} ${volume}`);
    }
  }

  #putAttachment(attachment: Omit<Attachment, "resourceVersion">): void {
    const { name } = attachment;
    const resourceVersion = this.nextUid("rv");
    this.#put("attachment", this.attachments, name, { ...attachment, resourceVersion });
    this.#noteServed(name);
  }

  #put<K extends Kind>(
    kind: K,
    map: Map<string, Told[K]>,
    key: string,
    now: Told[K] | undefined,
  ): void {
    if (now === undefined) map.delete(key);
    else map.set(key, now);
    this.changes.push(changeOf(kind, key, now));
  }
}

function* listed<K extends Kind>(
  kind: K,
  map: ReadonlyMap<string, Told[K]>,
): Generator<Change, void, undefined> {
  for (const [key, now] of map) yield changeOf(kind, key, now);
}

function changeOf<K extends Kind>(kind: K, key: string, now: Told[K] | undefined): Change {
  const tell: Change["tell"] = (listeners, before) =>
    listeners[kind](key, now, before as Told[K] | undefined);
  return { kind, key, now, tell };
}
