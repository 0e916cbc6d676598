import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { Volume, Workload } from "./facts.ts";
import { decideHeadroom } from "./headroom.ts";
import type { HeadroomAction, HeadroomPod } from "./headroom.ts";
import { MultiMap } from "./multi-map.ts";
import type { World } from "./world.ts";

/** What the keeper asks of the API server. Writes are safe to repeat. */
export interface HeadroomCluster {
  /** Whether the workload of a headroom pod is there, read now and not from a cache. */
  hasWorkload(pod: HeadroomPod, signal: AbortSignal): Promise<boolean>;
  createHeadroom(workload: Workload, volume: Volume, signal: AbortSignal): Promise<void>;
  deleteHeadroom(pod: HeadroomPod, signal: AbortSignal): Promise<void>;
  /** Whether it was we who lifted it. */
  liftGate(workload: Workload, signal: AbortSignal): Promise<boolean>;
}

export interface HeadroomKeeperOptions {
  readonly cluster: HeadroomCluster;
  readonly world: World;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Has `work` called for a workload's UID, by one at a time, and again when it fails. */
  readonly enqueue: (uid: string) => void;
}

/** A watch that runs behind shows the workload soon. */
const LAG_MS = 1_000;

/** Looks after the workloads that came with the gate, from then until their pods run. */
export class HeadroomKeeper {
  readonly #options: HeadroomKeeperOptions;
  readonly #pods = new Map<string, HeadroomPod>();
  readonly #podsOf = new MultiMap<string, string>(); // workload UID -> keys
  /** Gated, or with headroom: few, and only for a moment each. */
  readonly #cared = new Set<string>();

  constructor(options: HeadroomKeeperOptions) {
    this.#options = options;
  }

  podChanged(key: string, now: HeadroomPod | undefined, before: HeadroomPod | undefined): void {
    if (before !== undefined) this.#podsOf.delete(before.workloadUid, key);
    this.#pods.delete(key);
    if (now === undefined) return;
    this.#pods.set(key, now);
    this.#podsOf.add(now.workloadUid, key);
    this.#care(now.workloadUid);
  }

  workloadChanged(now: Workload | undefined, before: Workload | undefined): void {
    if (now?.gated === true) this.#care(now.uid);
    for (const uid of [now?.uid, before?.uid]) {
      if (uid !== undefined && this.#cared.has(uid)) this.#options.enqueue(uid);
    }
  }

  /** A claim was bound, a Mountpoint Pod has started: whose it is does not matter, they are few. */
  worldChanged(): void {
    for (const uid of this.#cared) this.#options.enqueue(uid);
  }

  /** Returns when to look again, if so. */
  async work(uid: string, signal: AbortSignal): Promise<number | undefined> {
    const { world, nowMs } = this.#options;
    const pods = Array.from(this.#podsOf.get(uid), (key) => this.#pods.get(key));
    const known = pods.filter((pod) => pod !== undefined);
    const workload = world.workload(uid);
    if (workload === undefined && !(await this.#isGone(uid, known[0], signal))) return LAG_MS;
    const claims = workload === undefined ? [] : world.claimsOf(workload);
    const actions = decideHeadroom({ workload, claims, pods: known, nowMs: nowMs() });
    if (workload?.gated !== true && known.length === 0) this.#cared.delete(uid);
    let againMs: number | undefined;
    for (const action of actions) {
      if (action.do === "look-again") againMs = action.afterMs;
      else await this.#apply(action, workload, signal);
    }
    return againMs;
  }

  #care(uid: string): void {
    this.#cared.add(uid);
    this.#options.enqueue(uid);
  }

  /** Not known may only be a lag: it is gone when it was seen to go, or is not there now. */
  async #isGone(uid: string, pod: HeadroomPod | undefined, signal: AbortSignal): Promise<boolean> {
    const { world, cluster } = this.#options;
    if (world.isOver(uid) === true || pod === undefined) return true;
    return !(await cluster.hasWorkload(pod, signal));
  }

  async #apply(
    action: Exclude<HeadroomAction, { do: "look-again" }>,
    workload: Workload | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { cluster, log } = this.#options;
    if (action.do === "delete-headroom") {
      await cluster.deleteHeadroom(action.pod, signal);
      log.info({ pod: action.pod.name, workload: action.pod.workloadUid }, "headroom given up");
    } else if (workload !== undefined && action.do === "create-headroom") {
      await this.#reserve(workload, action.volume, signal);
    } else if (workload !== undefined && (await cluster.liftGate(workload, signal))) {
      const path = `${workload.namespace}/${workload.name}`;
      log.info({ workload: path }, "headroom is reserved, gate lifted");
    }
  }

  /** What no pod could serve needs no place: who is scheduled without is told what is wrong. */
  async #reserve(workload: Workload, volume: Volume, signal: AbortSignal): Promise<void> {
    const { cluster, log } = this.#options;
    try {
      await cluster.createHeadroom(workload, volume, signal);
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== "invalid") throw error;
      log.warn({ workload: workload.uid, volume: volume.name, err: error }, "no headroom for it");
    }
  }
}
