import assert from "node:assert/strict";
import { isSameLists } from "../volume/attachment.ts";
import type { Attachments, WorkloadAttachment } from "../volume/attachment.ts";
import { canResume, engineOf, mountIdOf } from "../volume/engine.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import type { Action, NewPod } from "./action.ts";
import { isSameStatus, staleReports, statusOf } from "./attachment-status.ts";
import type { Attachment, MountpointPod, Workload } from "./facts.ts";
import type { Observed } from "./observed.ts";
import { orphanActions } from "./orphans.ts";
import {
  isServing,
  isUnmarked,
  isUsable,
  lineageOf,
  needsSuccessor,
  startLeftMs,
  successorWaitMs,
} from "./succession.ts";
import type { Lost } from "./succession.ts";

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
  plan.restoreBound();
  plan.assignNewWorkloads();
  plan.closeEmpty();
  plan.watchStarts();
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
  /** UIDs of workloads that wait for a place. */
  #heldBack: readonly string[] = [];

  constructor(seen: Observed) {
    this.#seen = seen;
    this.#listed = seen.attachment?.spec.mountpointS3PodAttachments ?? {};
  }

  /** What becomes of each pod that the attachment lists. */
  keepOrClose(): void {
    for (const [name, listed] of Object.entries(this.#listed)) {
      const pod = this.#seen.pods.get(name);
      const entries = listed.filter((entry) => !this.#seen.gone.has(entry.workloadPodUID));
      if (this.#seen.foreign.has(name)) {
        if (entries.length > 0) this.#next.set(name, entries);
      } else if (entries.length > 0 && (!isServing(pod) || this.#seen.outdated.has(name))) {
        const listedUids = listed.map((entry) => entry.workloadPodUID);
        const remembered = this.#seen.remembered.get(name);
        const mountId = this.#mountIdOf(name);
        this.#lost.push({ name, pod, entries, mountId, listedUids, remembered });
      } else if (entries.length > 0 || listed.length > 0) {
        if (isUsable(pod)) this.#next.set(name, entries);
        else if (isUnmarked(pod)) this.#markEmpty(pod);
      } else if (isUsable(pod)) {
        this.#markEmpty(pod); // nobody may join
      }
    }
  }

  #markEmpty(pod: MountpointPod): void {
    this.marks.push({ do: "mark-pod", pod, why: "its list is empty" });
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

  /**
   * A workload that has started is bound to a mount. Where somebody deleted the attachment that
   * listed it, the workload is listed again for the Mountpoint Pod of that very mount, or for a
   * successor if none serves it any more.
   */
  restoreBound(): void {
    for (const { uid } of this.#unlisted()) {
      if (!this.#seen.bound.has(uid)) continue;
      const target = this.#podBoundTo(uid) ?? this.#heirFor(uid);
      if (target === undefined) continue;
      this.#next.set(target, [...(this.#next.get(target) ?? []), ...this.#arrivals([uid])]);
    }
  }

  /** A place for everybody who has none: a pod that is there, else one new pod for all of them. */
  assignNewWorkloads(): void {
    const { place } = this.#seen;
    const newcomers = this.#newcomers();
    const admitted = newcomers.filter((uid) => place?.admitted.has(uid) !== false);
    const target = this.#podForNewcomers(admitted);
    if (target !== undefined) {
      const present = this.#next.get(target) ?? [];
      this.#next.set(target, [...present, ...this.#arrivals(admitted)]);
    }
    const waiting =
      target === undefined ? newcomers : newcomers.filter((uid) => !admitted.includes(uid));
    if (waiting.length > 0) this.#holdBack(waiting);
  }

  #podForNewcomers(uids: readonly string[]): string | undefined {
    const [first] = uids;
    if (first === undefined) return undefined;
    return (
      this.#joinable() ??
      this.#podLeftFor(uids) ??
      this.#newPod(first, 0, [first], this.#seen.place?.mayCreate !== false) ??
      this.#joinableBeforeUpgrade()
    );
  }

  /** A pod that a failed attempt has created for one of the workloads. */
  #podLeftFor(uids: readonly string[]): string | undefined {
    const left = uids.values().map((uid) => this.#newPod(uid, 0, [], false));
    return left.find((name) => name !== undefined);
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

  /** A pod that does not start is told of, though its status does not change. */
  watchStarts(): void {
    const kept = Object.keys(this.#listed).filter((name) => this.#next.has(name));
    for (const name of kept.filter((one) => !this.#seen.outdated.has(one))) {
      const leftMs = startLeftMs(this.#seen.pods.get(name), this.#seen.nowMs);
      if (leftMs !== undefined && leftMs > 0) {
        this.actions.push({ do: "look-again", afterMs: leftMs });
      }
    }
  }

  attachmentActions(): Action[] {
    const { attachment } = this.#seen;
    const attachments = Object.fromEntries(this.#next);
    const mounts = Array.from(this.#next.keys(), (pod) => [pod, this.#mountIdOf(pod)] as const);
    const inherited = mounts.filter(([pod, mountId]) => mountId !== pod);
    const lists = { attachments, mountIds: Object.fromEntries(inherited) };
    const isEmpty = this.#next.size === 0;
    if (attachment === undefined) {
      return isEmpty && this.#heldBack.length === 0 ? [] : [{ do: "create-attachment", lists }];
    }
    if (isEmpty && this.#heldBack.length === 0) return [{ do: "delete-attachment", attachment }];
    if (isSameLists(this.#listed, attachments)) return this.#statusActions(attachment);
    return [{ do: "update-attachment", attachment, lists }];
  }

  /** In a quiet moment: it would make the version stale that a change of the lists needs. */
  #statusActions(attachment: Attachment): Action[] {
    const status = statusOf(this.#seen, this.#heldBack);
    const stale = staleReports(this.#seen);
    if (isSameStatus(attachment.status, status) && stale.length === 0) return [];
    return [{ do: "write-status", attachment, status, stale }];
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

  /**
   * A workload that has started without ever being listed runs on a mount that the first version
   * of the driver made on the host: it is left alone until it is recreated.
   */
  #newcomers(): string[] {
    const { bound } = this.#seen;
    const uids = this.#unlisted().map((workload) => workload.uid);
    return uids.filter((uid) => !bound.has(uid)).toSorted();
  }

  #holdBack(uids: readonly string[]): void {
    const { place, wanting } = this.#seen;
    assert(place !== undefined, "only a limit holds back");
    const workloads = wanting.filter(({ uid }) => uids.includes(uid));
    this.actions.push({ do: "hold-back", workloads, place });
    this.#heldBack = uids;
  }

  #unlisted(): Workload[] {
    const listed = new Set<string>();
    for (const entries of this.#next.values()) {
      for (const entry of entries) listed.add(entry.workloadPodUID);
    }
    return this.#seen.wanting.filter(({ uid }) => !listed.has(uid));
  }

  /** By its remembered mount; else the pods that outlived the attachment are all that is known. */
  #podBoundTo(uid: string): string | undefined {
    const { lastMounts, attachment, bound, gone } = this.#seen;
    const known = lastMounts.get(uid);
    if (known !== undefined) return this.#newestOf(known.mountId);
    if (attachment !== undefined) return undefined;
    // A pod whose own workload still waits was made just now: nobody is bound to its mount yet.
    const left = this.#servingByName().filter(
      ({ workloadUid }) => bound.has(workloadUid) || gone.has(workloadUid),
    );
    const pod = left.find(({ workloadUid }) => workloadUid === uid) ?? left[0];
    return pod === undefined ? undefined : this.#newestOf(pod.mountId);
  }

  /** Undefined where nobody remembers the mount: the driver's first version may have made it. */
  #heirFor(uid: string): string | undefined {
    const { lastMounts, pods, remembered } = this.#seen;
    const last = lastMounts.get(uid);
    if (last === undefined) return undefined;
    const { podName: name, mountId } = last;
    const seen = { pod: pods.get(name), remembered: remembered.get(name) };
    const sharing = lastMounts.entries().filter(([, one]) => one.mountId === mountId);
    const listedUids = Array.from(sharing, ([other]) => other);
    return this.#successorOf({
      name,
      mountId,
      entries: this.#arrivals(listedUids),
      listedUids,
      ...seen,
    });
  }

  /** A mount has one server: the pod that is to be listed for it, else its last generation. */
  #newestOf(mountId: string): string | undefined {
    const listed = this.#next.keys().find((name) => this.#mountIdOf(name) === mountId);
    if (listed !== undefined) return listed;
    const pods = this.#servingByName().filter((pod) => pod.mountId === mountId);
    return pods.toSorted((one, other) => other.generation - one.generation)[0]?.name;
  }

  #servingByName(): MountpointPod[] {
    const serving = this.#seen.pods.values().filter(isServing).toArray();
    return serving.toSorted((one, other) => (one.name < other.name ? -1 : 1));
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

  /** For a namespace at its limit, where a rolling update of the driver would wait for ever. */
  #joinableBeforeUpgrade(): string | undefined {
    const { pods, driverVersion } = this.#seen;
    const names = Array.from(this.#next.keys()).toSorted();
    return names.find((name) => {
      const pod = pods.get(name);
      return pod !== undefined && this.#isOpen({ ...pod, driverVersion });
    });
  }

  #isMadeAsWanted(name: string): boolean {
    const made = this.#created.get(name);
    return made !== undefined && engineOf(made.mountId) === this.#seen.engine;
  }

  #isOpen(pod: MountpointPod | undefined): boolean {
    const { driverVersion, engine, outdated } = this.#seen;
    if (!isServing(pod) || pod.noNewWorkload || outdated.has(pod.name)) return false;
    return pod.driverVersion === driverVersion && engineOf(pod.mountId) === engine;
  }

  #isTaken(name: string): boolean {
    return (
      Object.hasOwn(this.#listed, name) || this.#created.has(name) || this.#seen.foreign.has(name)
    );
  }

  /** The first name that is free, or that a crash left with a good pod which nobody lists. */
  #newPod(
    workloadUid: string,
    first: number,
    users: readonly string[],
    mayCreate: boolean,
  ): string | undefined {
    for (let generation = first; ; generation += 1) {
      const name = mountpointPodNameOf(workloadUid, this.#pvName(), generation);
      if (this.#isTaken(name)) continue;
      const pod = this.#seen.pods.get(name);
      const mountId = mountIdOf(name, this.#seen.engine);
      if (this.#isElsewhere(mountId, name)) continue;
      if (pod === undefined) {
        if (!mayCreate) return undefined;
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
    if (!canResume(lost.mountId)) {
      const name = this.#newPod(workloadUid, last + 1, uids, true);
      assert(name !== undefined, "no limit refuses a successor");
      return name;
    }
    for (let generation = last + 1; ; generation += 1) {
      const name = mountpointPodNameOf(workloadUid, this.#pvName(), generation);
      if (this.#isTaken(name)) continue;
      if (this.#seen.pods.has(name)) continue;
      const { mountId } = lost;
      const preempting = this.#hadGate(uids);
      return this.#create({ name, workloadUid, generation, mountId, preempting });
    }
  }

  /** A good pod that was made for the mount, and is not listed yet. */
  #leftFor({ mountId }: Lost): MountpointPod | undefined {
    const left = this.#seen.pods.values().filter((pod) => {
      const isListed = Object.hasOwn(this.#listed, pod.name);
      const isGood = isServing(pod) && !this.#seen.outdated.has(pod.name);
      return pod.mountId === mountId && isGood && !isListed;
    });
    return left.toArray().toSorted((a, b) => b.generation - a.generation)[0];
  }

  #hadGate(uids: readonly string[]): boolean {
    return this.#seen.wanting.some(({ uid, hadGate }) => hadGate && uids.includes(uid));
  }

  #create(made: Omit<NewPod, "workloadNamespace">): string {
    const { place, wanting } = this.#seen;
    const pod = { ...made, workloadNamespace: wanting[0]?.namespace ?? place?.namespace };
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
