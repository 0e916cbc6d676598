import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import type { Workload } from "./facts.ts";
import { MultiMap } from "./multi-map.ts";
import { isHindered, isServing } from "./succession.ts";
import type { World } from "./world.ts";

/** The limit of a namespace, as it concerns one attachment. */
export interface Place {
  readonly namespace: string;
  readonly limit: number;
  /** Mountpoint Pods that the namespace's workloads have, or are promised. */
  readonly taken: number;
  /** UIDs of the attachment's waiting workloads that may be served now. */
  readonly admitted: ReadonlySet<string>;
  /** UIDs of those that need more Mountpoint Pods than the limit allows, and how many. */
  readonly tooLarge: ReadonlyMap<string, number>;
  /** The attachment may get one more Mountpoint Pod. */
  readonly mayCreate: boolean;
}

/** The places of its namespace that an attachment takes, or waits for. */
interface Share {
  readonly namespace: string;
  readonly mounts: number;
  /** A Mountpoint Pod takes new workloads: they cost no place. */
  readonly isOpen: boolean;
  /** UIDs of workloads that wait for a Mountpoint Pod, with the time of their creation. */
  readonly waiting: ReadonlyMap<string, number>;
  /** UIDs of workloads that have one. */
  readonly served: ReadonlySet<string>;
}

/** Which workloads of a namespace may be served now. */
interface Admission extends Pick<Place, "taken"> {
  /** UIDs of workloads; undefined where no place is free: then those that need none. */
  readonly admitted: ReadonlySet<string> | undefined;
  /** Attachments that places are promised to. */
  readonly promised: ReadonlySet<string>;
  /** Places that no waiting workload needs. */
  readonly spare: number;
}

interface Candidate {
  readonly uid: string;
  /** Attachments that need a new Mountpoint Pod for the workload. */
  readonly missing: readonly string[];
  /** The workload has a part of its volumes already, or they are being made. */
  readonly isBegun: boolean;
  /** All the volumes of the workload. */
  readonly size: number;
}

/** Another attempt would fail too: such an attachment must not keep the place from others. */
const LASTING: ReadonlySet<FailureKind> = new Set(["invalid", "denied", "refused", "conflict"]);

/**
 * How many Mountpoint Pods the workloads of one namespace may have. A place is a mount, so that a
 * successor takes none. All workloads of a volume are in the namespace of its claim, and so are all
 * that share a Mountpoint Pod.
 *
 * A workload is admitted once all the places that it still needs are free: a workload that held one
 * volume and waited for the next could wait for ever, for places of others that wait likewise. Even
 * a Mountpoint Pod that runs already is only shared then. The line is first come, first served, and
 * stands still while the first workload needs more places than are free: else pods with many
 * volumes would never have their turn. A pod that needs more than the limit is not in the line.
 */
export class NamespaceLimit {
  readonly #world: World;
  readonly #limit: number;
  readonly #enqueue: (name: string) => void;
  readonly #shares = new Map<string, Share>();
  readonly #present = new Map<string, number>();
  readonly #waiting = new MultiMap<string, string>(); // namespace -> attachments
  readonly #attachmentsOf = new MultiMap<string, string>(); // workload UID -> attachments
  /** By namespace, until something changes there. */
  readonly #admissions = new Map<string, Admission>();
  /**
   * Attachments that a Mountpoint Pod is being made for, with the mounts that they had before: the
   * pod comes to be also where its workload ends meanwhile.
   */
  readonly #granted = new Map<string, Pick<Share, "namespace" | "mounts">>();
  /** Attachments whose Mountpoint Pod can't be made. */
  readonly #hopeless = new Set<string>();

  constructor(world: World, limit: number, enqueue: (name: string) => void) {
    this.#world = world;
    this.#limit = limit;
    this.#enqueue = enqueue;
  }

  /**
   * Something about these attachments has changed. Whatever may be served by that, or no longer, is
   * looked at; the caller looks at the attachments themselves.
   */
  changed(names: Iterable<string>): void {
    const before = new Map<string, Admission>();
    const users = new Set<string>();
    for (const name of names) {
      const old = this.#shares.get(name);
      const now = this.#shareOf(name, old);
      if (isSame(old, now)) continue;
      for (const share of [old, now]) {
        if (share === undefined) continue;
        before.getOrInsertComputed(share.namespace, (one) => this.#admissionIn(one));
        for (const uid of usersOf(share)) users.add(uid);
      }
      this.#replace(name, old, now);
    }
    for (const [namespace, admission] of before) this.#wake(namespace, admission, users);
  }

  /** Undefined: nothing is known that would count for a namespace. */
  placeOf(name: string): Place | undefined {
    const share = this.#shares.get(name);
    if (share === undefined) return undefined;
    const { namespace, waiting } = share;
    const admission = this.#admissionIn(namespace);
    const { taken } = admission;
    const admitted = new Set(waiting.keys().filter((uid) => this.#isAdmitted(uid, admission)));
    const sizes = waiting.keys().map((uid) => [uid, this.#attachmentsOf.get(uid).size] as const);
    const tooLarge = new Map(sizes.filter(([, size]) => size > this.#limit));
    const rest = { tooLarge, mayCreate: mayCreate(name, admission) };
    return { namespace, limit: this.#limit, taken, admitted, ...rest };
  }

  /** Until it is known how that ended, nobody else gets the place. */
  grant(name: string): void {
    const share = this.#shares.get(name);
    if (share === undefined || this.#granted.has(name)) return;
    this.#granted.set(name, share);
    this.#admissions.delete(share.namespace);
  }

  /** After a failure that may have left a pod all the same, the place stays granted. */
  settle(name: string, error?: unknown): void {
    const isLasting = error instanceof Failure && LASTING.has(error.kind);
    if (error !== undefined && !isLasting) return;
    const namespace = (this.#granted.get(name) ?? this.#shares.get(name))?.namespace;
    const isSettled = !this.#granted.has(name) && this.#hopeless.has(name) === isLasting;
    if (namespace === undefined || isSettled) return;
    const before = this.#admissionIn(namespace);
    this.#granted.delete(name);
    if (isLasting) this.#hopeless.add(name);
    else this.#hopeless.delete(name);
    this.#admissions.delete(namespace);
    this.#wake(namespace, before, usersOf(this.#shares.get(name)));
  }

  /** Workloads that can be served now, and those that are to be told that they no longer can. */
  #wake(namespace: string, before: Admission, users: ReadonlySet<string>): void {
    const now = this.#admissionIn(namespace);
    // Without a free place nothing has changed for others: there may be thousands of them.
    const isFull = before.admitted === undefined && now.admitted === undefined;
    const names = isFull
      ? new Set(users.values().flatMap((uid) => this.#attachmentsOf.get(uid)))
      : this.#waiting.get(namespace);
    for (const name of names) {
      const uids = Array.from(this.#shares.get(name)?.waiting.keys() ?? []);
      const isNew = mayCreate(name, now) && !mayCreate(name, before);
      const isChanged = uids.some((uid) => {
        const isIn = this.#isAdmitted(uid, now);
        return isIn !== (before.admitted?.has(uid) ?? false) || (isIn && isNew);
      });
      if (isChanged) this.#enqueue(name);
    }
  }

  #isAdmitted(uid: string, { admitted, promised }: Admission): boolean {
    if (admitted !== undefined) return admitted.has(uid);
    const { missing, size } = this.#candidate(uid, promised);
    return size <= this.#limit && missing.every((name) => promised.has(name));
  }

  #admissionIn(namespace: string): Admission {
    return this.#admissions.getOrInsertComputed(namespace, (one) => this.#admit(one));
  }

  #admit(namespace: string): Admission {
    const granted = this.#grantedIn(namespace);
    const promised = new Set(granted);
    const present = this.#present.get(namespace) ?? 0;
    let free = this.#limit - present - promised.size;
    if (free <= 0) {
      return { taken: present + promised.size, promised, spare: 0, admitted: undefined };
    }
    const admitted = new Set<string>();
    let isBlocked = false;
    for (const { uid, missing } of this.#lineOf(namespace, granted)) {
      const costs = missing.filter((name) => !promised.has(name));
      if (costs.length > 0 && (isBlocked || costs.length > free)) {
        isBlocked = true;
        continue;
      }
      free -= costs.length;
      for (const name of costs) promised.add(name);
      admitted.add(uid);
    }
    const spare = isBlocked ? 0 : free;
    return { taken: present + promised.size, promised, spare, admitted };
  }

  #grantedIn(namespace: string): Set<string> {
    const granted = this.#granted.entries().filter(([name, before]) => {
      const isMade = (this.#shares.get(name)?.mounts ?? 0) > before.mounts;
      return before.namespace === namespace && !isMade;
    });
    return new Set(granted.map(([name]) => name));
  }

  #lineOf(namespace: string, granted: ReadonlySet<string>): Candidate[] {
    const createdMs = new Map<string, number>();
    for (const name of this.#waiting.get(namespace)) {
      for (const [uid, ms] of this.#shares.get(name)?.waiting ?? []) createdMs.set(uid, ms);
    }
    return Array.from(createdMs.keys(), (uid) => this.#candidate(uid, granted))
      .filter(({ size }) => size <= this.#limit)
      .toSorted((one, other) => {
        if (one.isBegun !== other.isBegun) return one.isBegun ? -1 : 1;
        const ageMs = (createdMs.get(one.uid) ?? 0) - (createdMs.get(other.uid) ?? 0);
        // Times of creation are whole seconds: pods of one burst have the same.
        return ageMs === 0 ? (one.uid < other.uid ? -1 : 1) : ageMs;
      });
  }

  #candidate(uid: string, granted: ReadonlySet<string>): Candidate {
    const names = Array.from(this.#attachmentsOf.get(uid));
    const waits = names.filter((name) => this.#shares.get(name)?.waiting.has(uid) === true);
    const missing = waits.filter((name) => {
      return this.#shares.get(name)?.isOpen === false && !this.#hopeless.has(name);
    });
    const isBegun = waits.length < names.length || missing.some((name) => granted.has(name));
    return { uid, missing, isBegun, size: names.length };
  }

  #replace(name: string, before: Share | undefined, now: Share | undefined): void {
    if (before !== undefined) {
      this.#count(before.namespace, -before.mounts);
      this.#waiting.delete(before.namespace, name);
      for (const uid of usersOf(before)) this.#attachmentsOf.delete(uid, name);
      this.#admissions.delete(before.namespace);
    }
    if (now === undefined) {
      this.#shares.delete(name);
      this.#hopeless.delete(name);
      return;
    }
    this.#shares.set(name, now);
    this.#count(now.namespace, now.mounts);
    if (now.waiting.size > 0) this.#waiting.add(now.namespace, name);
    for (const uid of usersOf(now)) this.#attachmentsOf.add(uid, name);
    this.#admissions.delete(now.namespace);
  }

  #count(namespace: string, mounts: number): void {
    const present = (this.#present.get(namespace) ?? 0) + mounts;
    if (present === 0) this.#present.delete(namespace);
    else this.#present.set(namespace, present);
  }

  #shareOf(name: string, before: Share | undefined): Share | undefined {
    const world = this.#world;
    const spec = world.attachment(name)?.spec;
    const listed = Object.entries(spec?.mountpointS3PodAttachments ?? {});
    const pods = Array.from(world.podsOf(name));
    const workloads = Array.from(world.wanting(name));
    const mounts = new Set(pods.filter((pod) => !pod.finished).map((pod) => pod.mountId));
    for (const [pod, { length }] of listed) {
      if (length > 0) mounts.add(world.pod(pod)?.mountId ?? spec?.mountIDs?.[pod] ?? pod);
    }
    if (mounts.size === 0 && workloads.length === 0) return undefined;
    const pvName = spec?.persistentVolumeName ?? world.keyOf(name)?.persistentVolumeName ?? "";
    const namespace =
      workloads[0]?.namespace ??
      pods.find((pod) => pod.workloadNamespace !== "")?.workloadNamespace ??
      before?.namespace ??
      world.volume(pvName)?.claimKey.split("/")[0];
    if (namespace === undefined) return undefined;
    const served = new Set(listed.flatMap(([, all]) => all.map((one) => one.workloadPodUID)));
    const waiting = workloads.filter(({ uid, started, terminating }) => {
      const isOld = started && world.lastMount(uid, pvName) === undefined;
      return !served.has(uid) && !terminating && !isOld;
    });
    return {
      namespace,
      mounts: mounts.size,
      isOpen: pods.some((pod) => {
        if (!isServing(pod) || isHindered(pod) || pod.noNewWorkload) return false;
        // A pod with outdated settings gets a successor before it starts, if anybody still waits
        // for it. A pod that is not listed was left by a crash, and is about to be.
        const uids = spec?.mountpointS3PodAttachments[pod.name]?.map((one) => one.workloadPodUID);
        const stays = ({ uid, terminating }: Workload) => !terminating && uids?.includes(uid);
        return pod.started || uids === undefined || workloads.some(stays);
      }),
      waiting: new Map(waiting.map(({ uid, createdMs }) => [uid, createdMs])),
      served,
    };
  }
}

function mayCreate(name: string, { promised, spare }: Admission): boolean {
  return promised.has(name) || spare > 0;
}

function usersOf(share: Share | undefined): ReadonlySet<string> {
  return new Set([...(share?.waiting.keys() ?? []), ...(share?.served ?? [])]);
}

function isSame(one: Share | undefined, other: Share | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const isAlike =
    one.namespace === other.namespace &&
    one.mounts === other.mounts &&
    one.isOpen === other.isOpen &&
    one.waiting.size === other.waiting.size &&
    one.served.size === other.served.size;
  return (
    isAlike &&
    one.waiting.keys().every((uid) => other.waiting.has(uid)) &&
    one.served.isSubsetOf(other.served)
  );
}
