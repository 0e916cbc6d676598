import assert from "node:assert/strict";
import type { Attachments, SharingKey, WorkloadAttachment } from "../volume/attachment.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import type { Attachment, MountpointPod, Workload } from "./facts.ts";

/** Everything decide() may look at: the world of one attachment's name. */
export interface Observed {
  readonly name: string;
  /** What the attachment is, or is to be. Unknown when only a pod is left of it. */
  readonly key: SharingKey | undefined;
  readonly attachment: Attachment | undefined;
  /** Scheduled, neither ended nor terminating, of this key. Listed or not. */
  readonly wanting: readonly Workload[];
  /** UIDs named by the attachment or a pod whose workload is over: for certain, not by a lag. */
  readonly gone: ReadonlySet<string>;
  /** UIDs of workloads that are being deleted, and still there. */
  readonly leaving: ReadonlySet<string>;
  /** Those the attachment lists and those made for it. One that is missing is gone for certain. */
  readonly pods: ReadonlyMap<string, MountpointPod>;
  readonly driverVersion: string;
  readonly nowMs: number;
}

export interface NewPod {
  readonly name: string;
  readonly workloadUid: string;
  readonly generation: number;
}

export type Action =
  | { readonly do: "create-pod"; readonly pod: NewPod }
  | { readonly do: "mark-pod"; readonly pod: MountpointPod; readonly why: string }
  | { readonly do: "delete-pod"; readonly pod: MountpointPod; readonly why: string }
  | { readonly do: "create-attachment"; readonly attachments: Attachments }
  | {
      readonly do: "update-attachment";
      readonly attachment: Attachment;
      readonly attachments: Attachments;
    }
  | { readonly do: "delete-attachment"; readonly attachment: Attachment }
  | { readonly do: "look-again"; readonly afterMs: number };

type Entries = readonly WorkloadAttachment[];

const SUCCESSOR_BACK_OFF_FIRST_MS = 1_000;
const SUCCESSOR_BACK_OFF_MAX_MS = 300_000;
const GENERATIONS_SEARCHED = 100;
/** Another replica may be about to list the pod it has just made. */
const UNLISTED_GRACE_MS = 30_000;
/** A pod that is let go while it starts may still run for a moment, and end by itself. */
const START_LIMIT_MS = 120_000;

/**
 * Level-based and pure: one picture, one answer. The attachment is the one place where replicas
 * meet, guarded by its resourceVersion. So a pod is let go in three steps: its list becomes empty
 * (from then on nobody joins it), it is marked, it leaves the attachment.
 */
export function decide(seen: Observed): Action[] {
  const plan = new Plan(seen);
  plan.keepOrClose();
  plan.house();
  return [...plan.actions, ...plan.attachmentActions(), ...plan.orphanActions()];
}

class Plan {
  readonly actions: Action[] = [];
  readonly #seen: Observed;
  readonly #listed: Attachments;
  readonly #next = new Map<string, Entries>();
  /** Workloads whose Mountpoint Pod is lost, under the pod's name. */
  readonly #homeless = new Map<string, Entries>();

  constructor(seen: Observed) {
    this.#seen = seen;
    this.#listed = seen.attachment?.spec.mountpointS3PodAttachments ?? {};
  }

  /** What becomes of each pod that the attachment lists. */
  keepOrClose(): void {
    for (const [name, entries] of Object.entries(this.#listed)) {
      const pod = this.#seen.pods.get(name);
      const live = entries.filter((entry) => !this.#seen.gone.has(entry.workloadPodUID));
      if (entries.length === 0) {
        if (isUsable(pod)) this.actions.push({ do: "mark-pod", pod, why: "last workload left" });
      } else if (live.length > 0 && !isUsable(pod)) {
        this.#homeless.set(name, live);
      } else if (isUsable(pod)) {
        this.#next.set(name, live);
      }
    }
  }

  /** A place for everybody who has none: a pod that is there, else one new pod for all of them. */
  house(): void {
    const newcomers = this.#newcomers();
    const moving = this.#movable();
    if (newcomers.length === 0 && moving.length === 0) return;
    const target = this.#joinable() ?? this.#newPod(moving[0] ?? newcomers[0] ?? "");
    const attachmentTime = new Date(this.#seen.nowMs).toISOString();
    const arrivals = [...moving, ...newcomers].map((uid) => ({
      workloadPodUID: uid,
      attachmentTime,
    }));
    this.#next.set(target, [...(this.#next.get(target) ?? []), ...arrivals]);
  }

  attachmentActions(): Action[] {
    const { attachment } = this.#seen;
    const attachments = Object.fromEntries(this.#next);
    if (attachment === undefined) {
      return this.#next.size === 0 ? [] : [{ do: "create-attachment", attachments }];
    }
    if (this.#next.size === 0) return [{ do: "delete-attachment", attachment }];
    if (isSame(this.#listed, attachments)) return [];
    return [{ do: "update-attachment", attachment, attachments }];
  }

  /** Pods made for this attachment that it does not list: finished, let go, or left by a crash. */
  orphanActions(): Action[] {
    const actions: Action[] = [];
    for (const pod of this.#seen.pods.values()) {
      if (Object.hasOwn(this.#listed, pod.name) || this.#next.has(pod.name)) continue;
      if (pod.terminating) continue;
      if (pod.finished) actions.push({ do: "delete-pod", pod, why: "finished" });
      else if (!pod.needsUnmount) actions.push(this.#unused(pod));
      else if (!pod.started) actions.push(this.#neverStarted(pod));
    }
    return actions;
  }

  /** Nobody will ever unmount and end a pod whose image can not be had: give up on it. */
  #neverStarted(pod: MountpointPod): Action {
    const afterMs = pod.createdMs + START_LIMIT_MS - this.#seen.nowMs;
    if (pod.scheduled && afterMs > 0) return { do: "look-again", afterMs };
    return { do: "delete-pod", pod, why: "never started" };
  }

  #unused(pod: MountpointPod): Action {
    const afterMs = pod.createdMs + UNLISTED_GRACE_MS - this.#seen.nowMs;
    if (afterMs > 0 && !this.#seen.gone.has(pod.workloadUid)) return { do: "look-again", afterMs };
    return { do: "mark-pod", pod, why: "nobody uses it" };
  }

  #newcomers(): string[] {
    const listed = new Set<string>();
    for (const entries of [...this.#next.values(), ...this.#homeless.values()]) {
      for (const entry of entries) listed.add(entry.workloadPodUID);
    }
    const uids = this.#seen.wanting.map((workload) => workload.uid);
    return uids.filter((uid) => !listed.has(uid)).toSorted();
  }

  /** No successor for workloads that all leave anyway, and none before its time. */
  #movable(): string[] {
    const moving: string[] = [];
    for (const [name, entries] of this.#homeless) {
      const waitMs = this.#successorWaitMs(name, entries);
      const stays = entries.some((entry) => !this.#seen.leaving.has(entry.workloadPodUID));
      if (stays && waitMs <= 0) {
        moving.push(...entries.map((entry) => entry.workloadPodUID));
        continue;
      }
      this.#next.set(name, entries);
      if (stays) this.actions.push({ do: "look-again", afterMs: waitMs });
    }
    // The name of the successor comes from the first: one that stays is the better godparent.
    const leaves = (uid: string) => Number(this.#seen.leaving.has(uid));
    return moving.toSorted((a, b) => leaves(a) - leaves(b) || (a < b ? -1 : 1));
  }

  /** The n-th generation waits twice as long as the one before; who lived long waits no more. */
  #successorWaitMs(name: string, entries: Entries): number {
    const pod = this.#seen.pods.get(name);
    const times = entries.map((entry) => Date.parse(entry.attachmentTime));
    const sinceMs = pod?.createdMs ?? Math.max(...times);
    const uids = entries.map((entry) => entry.workloadPodUID);
    const generations = uids.map((uid) => this.#generationOf(name, uid));
    const generation = pod?.generation ?? Math.max(0, ...generations);
    const fullMs = SUCCESSOR_BACK_OFF_FIRST_MS * 2 ** Math.min(generation, 20);
    return sinceMs + Math.min(fullMs, SUCCESSOR_BACK_OFF_MAX_MS) - this.#seen.nowMs;
  }

  /** Which generation of a workload's Mountpoint Pods has this name; -1 for another workload's. */
  #generationOf(podName: string, workloadUid: string): number {
    const pvName = this.#seen.key?.persistentVolumeName ?? "";
    for (let generation = 0; generation < GENERATIONS_SEARCHED; generation += 1) {
      if (mountpointPodNameOf(workloadUid, pvName, generation) === podName) return generation;
    }
    return -1;
  }

  #joinable(): string | undefined {
    for (const name of Array.from(this.#next.keys()).toSorted()) {
      const pod = this.#seen.pods.get(name);
      if (!isUsable(pod) || pod.noNewWorkload) continue;
      if (pod.driverVersion === this.#seen.driverVersion) return name;
    }
    return undefined;
  }

  /**
   * The first name that is free, or that a crash left with a good pod which nobody lists. It comes
   * after those of the pods that are lost: a name must not mean another pod from one look to the
   * next.
   */
  #newPod(workloadUid: string): string {
    const { key, pods, driverVersion } = this.#seen;
    assert(key !== undefined, "somebody wants or has an attachment, so its key is known");
    const lost = Array.from(this.#homeless.keys(), (name) => this.#generationOf(name, workloadUid));
    for (let generation = 1 + Math.max(-1, ...lost); ; generation += 1) {
      const name = mountpointPodNameOf(workloadUid, key.persistentVolumeName, generation);
      if (Object.hasOwn(this.#listed, name)) continue;
      const pod = pods.get(name);
      if (pod === undefined) {
        this.actions.push({ do: "create-pod", pod: { name, workloadUid, generation } });
        return name;
      }
      if (isUsable(pod) && !pod.noNewWorkload && pod.driverVersion === driverVersion) return name;
    }
  }
}

function isUsable(pod: MountpointPod | undefined): pod is MountpointPod {
  return pod !== undefined && !pod.finished && !pod.terminating && !pod.needsUnmount;
}

function isSame(a: Attachments, b: Attachments): boolean {
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => {
    const [left = [], right] = [a[name], b[name]];
    if (right === undefined || left.length !== right.length) return false;
    return left.every((entry, i) => entry.workloadPodUID === right[i]?.workloadPodUID);
  });
}
