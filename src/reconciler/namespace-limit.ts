import { Failure } from "../base/failure.ts";
import type { Engine } from "../volume/engine.ts";
import { isLasting } from "./lasting-failure.ts";
import { MultiMap } from "./multi-map.ts";
import { isSame, shareOf, usersOf } from "./namespace-share.ts";
import type { Share } from "./namespace-share.ts";
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

export interface NamespaceLimitOptions {
  readonly world: World;
  readonly limit: number;
  /** No workload joins a Mountpoint Pod with another engine. */
  readonly engine: Engine;
  readonly enqueue: (name: string) => void;
}

/** The writes that are under way for an attachment, or whose outcome is unknown. */
interface Grant {
  readonly namespace: string;
  /** Mounts that the writes list. They take places even if their workloads end meanwhile. */
  readonly mounts: ReadonlySet<string>;
  /** UIDs of waiting workloads that the writes list. */
  readonly uids: ReadonlySet<string>;
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
  /** The workload has a part of its volumes already, or a write under way gives it one. */
  readonly isBegun: boolean;
  /** All the volumes of the workload. */
  readonly size: number;
}

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
 *
 * A workload that has a part of its volumes comes before all others, from the moment when a write
 * begins that lists it. Such workloads pass each other: places for all of them are reserved, apart
 * from those of mounts that are about to end.
 */
export class NamespaceLimit {
  readonly #world: World;
  readonly #limit: number;
  readonly #engine: Engine;
  readonly #enqueue: (name: string) => void;
  readonly #shares = new Map<string, Share>();
  readonly #present = new Map<string, number>();
  readonly #waiting = new MultiMap<string, string>(); // namespace -> attachments
  readonly #attachmentsOf = new MultiMap<string, string>(); // workload UID -> attachments
  /** By namespace, until something changes there. */
  readonly #admissions = new Map<string, Admission>();
  readonly #grants = new Map<string, Grant>(); // by attachment
  /** Attachments whose Mountpoint Pod can't be made. */
  readonly #hopeless = new Set<string>();

  constructor({ world, limit, engine, enqueue }: NamespaceLimitOptions) {
    this.#world = world;
    this.#limit = limit;
    this.#engine = engine;
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
      const now = shareOf(name, this.#world, this.#engine, old);
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

  /**
   * A write is about to list these mounts and workloads. Until its outcome is known, the places of
   * the mounts stay reserved, and so do those for the other volumes of the workloads: a watch that
   * reports an older workload meanwhile would leave them with a part of their volumes.
   */
  grant(name: string, { mounts, uids }: Pick<Grant, "mounts" | "uids">): void {
    const namespace = this.#shares.get(name)?.namespace;
    if (namespace === undefined) return;
    const before = this.#grants.get(name)?.uids ?? new Set(); // a write that failed may count
    this.#grants.set(name, { namespace, mounts, uids: uids.union(before) });
    this.#admissions.delete(namespace);
  }

  /** After a failure that may have written something all the same, the grant stays. */
  settle(name: string, error?: unknown): void {
    // Another attempt would fail too: such an attachment must not keep the place from others.
    const isTaken = error instanceof Failure && error.kind === "conflict";
    const isHopeless = isLasting(error) || isTaken;
    if (error !== undefined && !isHopeless) return;
    const namespace = (this.#grants.get(name) ?? this.#shares.get(name))?.namespace;
    const isSettled = !this.#grants.has(name) && this.#hopeless.has(name) === isHopeless;
    if (namespace === undefined || isSettled) return;
    const before = this.#admissionIn(namespace);
    this.#grants.delete(name);
    if (isHopeless) this.#hopeless.add(name);
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
    const { missing, size } = this.#candidate(uid);
    return size <= this.#limit && missing.every((name) => promised.has(name));
  }

  #admissionIn(namespace: string): Admission {
    return this.#admissions.getOrInsertComputed(namespace, (one) => this.#admit(one));
  }

  #admit(namespace: string): Admission {
    const promised = this.#grantedIn(namespace);
    const present = this.#present.get(namespace) ?? 0;
    let free = this.#limit - present - promised.size;
    if (free <= 0) {
      return { taken: present + promised.size, promised, spare: 0, admitted: undefined };
    }
    const admitted = new Set<string>();
    let isBlocked = false;
    for (const { uid, missing, isBegun } of this.#lineOf(namespace)) {
      const costs = missing.filter((name) => !promised.has(name));
      const mustWait = costs.length > free || (isBlocked && !isBegun);
      if (costs.length > 0 && mustWait) {
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

  /** Attachments for which a write under way lists a mount that has no place yet. */
  #grantedIn(namespace: string): Set<string> {
    const granted = this.#grants.entries().filter(([name, grant]) => {
      const present = this.#shares.get(name)?.mounts ?? new Set();
      return grant.namespace === namespace && !grant.mounts.isSubsetOf(present);
    });
    return new Set(granted.map(([name]) => name));
  }

  #lineOf(namespace: string): Candidate[] {
    const createdMs = new Map<string, number>();
    for (const name of this.#waiting.get(namespace)) {
      for (const [uid, ms] of this.#shares.get(name)?.waiting ?? []) createdMs.set(uid, ms);
    }
    return Array.from(createdMs.keys(), (uid) => this.#candidate(uid))
      .filter(({ size }) => size <= this.#limit)
      .toSorted((one, other) => {
        if (one.isBegun !== other.isBegun) return one.isBegun ? -1 : 1;
        const ageMs = (createdMs.get(one.uid) ?? 0) - (createdMs.get(other.uid) ?? 0);
        // Times of creation are whole seconds: pods of one burst have the same.
        return ageMs === 0 ? (one.uid < other.uid ? -1 : 1) : ageMs;
      });
  }

  #candidate(uid: string): Candidate {
    const names = Array.from(this.#attachmentsOf.get(uid));
    const waits = names.filter((name) => this.#shares.get(name)?.waiting.has(uid) === true);
    const missing = waits.filter((name) => {
      const share = this.#shares.get(name);
      const mayJoin = share === undefined || share.isOpen || share.left.has(uid);
      return !mayJoin && !this.#hopeless.has(name);
    });
    const isGranted = names.some((name) => this.#grants.get(name)?.uids.has(uid) === true);
    const isBegun = isGranted || waits.length < names.length;
    return { uid, missing, isBegun, size: names.length };
  }

  #replace(name: string, before: Share | undefined, now: Share | undefined): void {
    if (before !== undefined) {
      this.#count(before.namespace, -before.mounts.size);
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
    this.#count(now.namespace, now.mounts.size);
    if (now.waiting.size > 0) this.#waiting.add(now.namespace, name);
    for (const uid of usersOf(now)) this.#attachmentsOf.add(uid, name);
    this.#admissions.delete(now.namespace);
  }

  #count(namespace: string, mounts: number): void {
    const present = (this.#present.get(namespace) ?? 0) + mounts;
    if (present === 0) this.#present.delete(namespace);
    else this.#present.set(namespace, present);
  }
}

function mayCreate(name: string, { promised, spare }: Admission): boolean {
  return promised.has(name) || spare > 0;
}
