import assert from "node:assert/strict";
import { isSameLists } from "../volume/attachment.ts";
import type {
  AttachmentLists,
  Attachments,
  SharingKey,
  WorkloadAttachment,
} from "../volume/attachment.ts";
import { canResume, engineOf, mountIdOf } from "../volume/engine.ts";
import type { Engine } from "../volume/engine.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import { isSameStatus, statusOf } from "./attachment-status.ts";
import type { ControllerStatus } from "./attachment-status.ts";
import type { Attachment, MountpointPod, NodeFacts, Workload } from "./facts.ts";
import { orphanActions } from "./orphans.ts";
import { isServing, isUsable, lineageOf, needsSuccessor, successorWaitMs } from "./succession.ts";
import type { Lineage, Lost } from "./succession.ts";

/** Everything decide() may look at: the world of one attachment's name. */
export interface Observed {
  readonly name: string;
  /** What the attachment is, or is to be. Unknown when only a pod is left of it. */
  readonly key: SharingKey | undefined;
  readonly attachment: Attachment | undefined;
  /** The PV's; empty when it was deleted under its users. */
  readonly attributes: Readonly<Record<string, string>>;
  /** Scheduled, neither ended nor terminating, of this key. Listed or not. */
  readonly wanting: readonly Workload[];
  /** UIDs named by the attachment or a pod whose workload is over: for certain, not by a lag. */
  readonly gone: ReadonlySet<string>;
  /** UIDs of workloads that are being deleted, and still there. */
  readonly leaving: ReadonlySet<string>;
  /** Those the attachment lists and those made for it. One that is missing is gone for certain. */
  readonly pods: ReadonlyMap<string, MountpointPod>;
  /** What is known of pods that the attachment lists and that are gone. */
  readonly remembered: ReadonlyMap<string, Lineage>;
  /** The node of the key; undefined when it has been deleted. */
  readonly node: NodeFacts | undefined;
  readonly driverVersion: string;
  /** The administrator's choice, for mounts that begin now. */
  readonly engine: Engine;
  readonly nowMs: number;
}

export interface NewPod {
  readonly name: string;
  readonly workloadUid: string;
  readonly generation: number;
  readonly mountId: string;
  /** One that it is made for has headroom to give up for it. */
  readonly preempting: boolean;
}

export type Action =
  | { readonly do: "create-pod"; readonly pod: NewPod }
  | { readonly do: "mark-pod"; readonly pod: MountpointPod; readonly why: string }
  | { readonly do: "delete-pod"; readonly pod: MountpointPod; readonly why: string }
  | { readonly do: "create-attachment"; readonly lists: AttachmentLists }
  | {
      readonly do: "update-attachment";
      readonly attachment: Attachment;
      readonly lists: AttachmentLists;
    }
  | { readonly do: "delete-attachment"; readonly attachment: Attachment }
  | {
      readonly do: "write-status";
      readonly attachment: Attachment;
      readonly status: ControllerStatus;
    }
  | { readonly do: "look-again"; readonly afterMs: number };

type Entries = readonly WorkloadAttachment[];

/**
 * Level-based and pure: one picture, one answer. The attachment is the one place where replicas
 * meet, guarded by its resourceVersion. So a pod first leaves the attachment, from when on nobody
 * joins it, and then is marked; between the two it is one of those that nobody lists.
 */
export function decide(seen: Observed): Action[] {
  const plan = new Plan(seen);
  plan.keepOrClose();
  plan.replaceLost();
  plan.welcome();
  plan.closeEmpty();
  return [...plan.actions, ...plan.attachmentActions(), ...plan.marks, ...plan.orphanActions()];
}

class Plan {
  readonly actions: Action[] = [];
  /** Of pods that leave the attachment: only once it has been written. */
  readonly marks: Action[] = [];
  readonly #seen: Observed;
  readonly #listed: Attachments;
  readonly #next = new Map<string, Entries>();
  readonly #created = new Map<string, NewPod>();
  readonly #lost: Lost[] = [];

  constructor(seen: Observed) {
    this.#seen = seen;
    this.#listed = seen.attachment?.spec.mountpointS3PodAttachments ?? {};
  }

  /** What becomes of each pod that the attachment lists. */
  keepOrClose(): void {
    for (const [name, listed] of Object.entries(this.#listed)) {
      const pod = this.#seen.pods.get(name);
      const entries = listed.filter((entry) => !this.#seen.gone.has(entry.workloadPodUID));
      if (entries.length > 0 && !isServing(pod)) {
        const listedUids = listed.map((entry) => entry.workloadPodUID);
        const remembered = this.#seen.remembered.get(name);
        const mountId = this.#mountIdOf(name);
        this.#lost.push({ name, pod, entries, mountId, listedUids, remembered });
      } else if (entries.length > 0 || listed.length > 0) {
        if (isUsable(pod)) this.#next.set(name, entries);
      } else if (isUsable(pod)) {
        this.marks.push({ do: "mark-pod", pod, why: "its list is empty" }); // nobody may join
      }
    }
  }

  /** One successor for each lost pod, for its mount. Until its time has come, all stays. */
  replaceLost(): void {
    const { leaving, node, nowMs } = this.#seen;
    const taken: Lost[] = [];
    for (const lost of this.#lost) {
      const needed = needsSuccessor(lost, leaving, node);
      const { generation } = lineageOf(lost, this.#pvName());
      const waitMs = this.#leftFor(lost) ? 0 : successorWaitMs(lost, generation, nowMs);
      if (needed && waitMs <= 0) taken.push(lost);
      else this.#next.set(lost.name, lost.entries);
      if (needed && waitMs > 0) this.actions.push({ do: "look-again", afterMs: waitMs });
    }
    for (const lost of taken) {
      const uids = lost.entries.map((entry) => entry.workloadPodUID);
      this.#next.set(this.#successorOf(lost), this.#arrivals(uids));
    }
  }

  /** A place for everybody who has none: a pod that is there, else one new pod for all of them. */
  welcome(): void {
    const [first, ...others] = this.#newcomers();
    if (first === undefined) return;
    const target = this.#joinable() ?? this.#newPod(first);
    const present = this.#next.get(target) ?? [];
    this.#next.set(target, [...present, ...this.#arrivals([first, ...others])]);
  }

  /** Who has lost the last workload, and got no new one, goes. */
  closeEmpty(): void {
    for (const [name, entries] of this.#next) {
      const pod = this.#seen.pods.get(name);
      if (entries.length > 0 || pod === undefined) continue;
      this.#next.delete(name);
      this.marks.push({ do: "mark-pod", pod, why: "last workload left" });
    }
  }

  attachmentActions(): Action[] {
    const { attachment } = this.#seen;
    const attachments = Object.fromEntries(this.#next);
    const mounts = Array.from(this.#next.keys(), (pod) => [pod, this.#mountIdOf(pod)] as const);
    const inherited = mounts.filter(([pod, mountId]) => mountId !== pod);
    const lists = { attachments, mountIds: Object.fromEntries(inherited) };
    if (attachment === undefined) {
      return this.#next.size === 0 ? [] : [{ do: "create-attachment", lists }];
    }
    if (this.#next.size === 0) return [{ do: "delete-attachment", attachment }];
    if (isSameLists(this.#listed, attachments)) return this.#statusActions(attachment);
    return [{ do: "update-attachment", attachment, lists }];
  }

  /** In a quiet moment: it would make the version stale that a change of the lists needs. */
  #statusActions(attachment: Attachment): Action[] {
    const status = statusOf(this.#seen);
    if (isSameStatus(attachment.status, status)) return [];
    return [{ do: "write-status", attachment, status }];
  }

  /** Of pods made for this attachment that it does not list. */
  orphanActions(): Action[] {
    const isListed = (name: string) => Object.hasOwn(this.#listed, name) || this.#next.has(name);
    const orphans = this.#seen.pods.values().filter((pod) => !isListed(pod.name));
    return orphans
      .flatMap((pod) => {
        const heir = this.#next.keys().find((name) => this.#mountIdOf(name) === pod.mountId);
        return orphanActions(pod, heir, this.#seen);
      })
      .toArray();
  }

  #newcomers(): string[] {
    const listed = new Set<string>();
    for (const entries of this.#next.values()) {
      for (const entry of entries) listed.add(entry.workloadPodUID);
    }
    const uids = this.#seen.wanting.map((workload) => workload.uid);
    return uids.filter((uid) => !listed.has(uid)).toSorted();
  }

  #arrivals(uids: readonly string[]): Entries {
    const attachmentTime = new Date(this.#seen.nowMs).toISOString();
    return uids.map((workloadPodUID) => ({ workloadPodUID, attachmentTime }));
  }

  /** One that runs already, else a successor that is just being made. */
  #joinable(): string | undefined {
    const names = Array.from(this.#next.keys()).toSorted();
    const isOpen = (name: string) => this.#isOpen(this.#seen.pods.get(name));
    return names.find(isOpen) ?? names.find((name) => this.#isMadeAsWanted(name));
  }

  #isMadeAsWanted(name: string): boolean {
    const made = this.#created.get(name);
    return made !== undefined && engineOf(made.mountId) === this.#seen.engine;
  }

  #isOpen(pod: MountpointPod | undefined): boolean {
    if (!isServing(pod) || pod.noNewWorkload) return false;
    const { driverVersion, engine } = this.#seen;
    return pod.driverVersion === driverVersion && engineOf(pod.mountId) === engine;
  }

  /** The first name that is free, or that a crash left with a good pod which nobody lists. */
  #newPod(workloadUid: string, first = 0, users: readonly string[] = [workloadUid]): string {
    for (let generation = first; ; generation += 1) {
      const name = mountpointPodNameOf(workloadUid, this.#pvName(), generation);
      if (Object.hasOwn(this.#listed, name) || this.#created.has(name)) continue;
      const pod = this.#seen.pods.get(name);
      const mountId = mountIdOf(name, this.#seen.engine);
      if (this.#isElsewhere(mountId, name)) continue;
      if (pod === undefined) {
        const preempting = this.#hadGate(users);
        return this.#create({ name, workloadUid, generation, mountId, preempting });
      }
      if (this.#isOpen(pod) && pod.mountId === mountId) return name;
    }
  }

  /**
   * The name is free again, but a successor of who had it goes on with the mount of that name. Only
   * who does not know yet that the workload is over comes here: the mount must not begin again.
   */
  #isElsewhere(mountId: string, podName: string): boolean {
    const { pods } = this.#seen;
    const names = [...Object.keys(this.#listed), ...pods.keys(), ...this.#created.keys()];
    return names.some((name) => name !== podName && this.#mountIdOf(name) === mountId);
  }

  /** One that a crash left, else the next of the line whose name is free: it never goes back. */
  #successorOf(lost: Lost): string {
    const left = this.#leftFor(lost);
    if (left !== undefined) return left.name;
    const { workloadUid, generation: last } = lineageOf(lost, this.#pvName());
    const uids = lost.entries.map((entry) => entry.workloadPodUID);
    // A mount that nobody can go on with is over: its users get another.
    if (!canResume(lost.mountId)) return this.#newPod(workloadUid, last + 1, uids);
    for (let generation = last + 1; ; generation += 1) {
      const name = mountpointPodNameOf(workloadUid, this.#pvName(), generation);
      if (Object.hasOwn(this.#listed, name) || this.#created.has(name)) continue;
      if (this.#seen.pods.has(name)) continue;
      const { mountId } = lost;
      const preempting = this.#hadGate(uids);
      return this.#create({ name, workloadUid, generation, mountId, preempting });
    }
  }

  /** A good pod that was made for the mount, and is not listed yet. */
  #leftFor({ mountId }: Lost): MountpointPod | undefined {
    const left = this.#seen.pods.values().filter((pod) => {
      return pod.mountId === mountId && isServing(pod) && !Object.hasOwn(this.#listed, pod.name);
    });
    return left.toArray().toSorted((a, b) => b.generation - a.generation)[0];
  }

  #hadGate(uids: readonly string[]): boolean {
    return this.#seen.wanting.some(({ uid, hadGate }) => hadGate && uids.includes(uid));
  }

  #create(pod: NewPod): string {
    this.#created.set(pod.name, pod);
    this.actions.push({ do: "create-pod", pod });
    return pod.name;
  }

  #mountIdOf(podName: string): string {
    const { pods, attachment } = this.#seen;
    const made = this.#created.get(podName) ?? pods.get(podName);
    return made?.mountId ?? attachment?.spec.mountIDs?.[podName] ?? podName;
  }

  #pvName(): string {
    const { key } = this.#seen;
    assert(key !== undefined, "somebody wants or has an attachment, so its key is known");
    return key.persistentVolumeName;
  }
}
