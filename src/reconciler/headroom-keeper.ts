import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PODS } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { WorkQueue } from "../kube/work-queue.ts";
import { LABEL } from "../volume/names.ts";
import type { Workload } from "./facts.ts";
import { decideHeadroom, headroomPodFor, headroomPodOf, ungatedOf } from "./headroom.ts";
import type { HeadroomAction, HeadroomPod, HeadroomSettings } from "./headroom.ts";
import { MultiMap } from "./multi-map.ts";
import type { World } from "./world.ts";

const BACK_OFF = { firstMs: 200, maxMs: 60_000 } as const;
const CONCURRENCY = 4;

export interface HeadroomKeeperOptions {
  readonly client: KubeClient;
  readonly world: World;
  readonly settings: HeadroomSettings;
  readonly log: Log;
}

/** Looks after the workloads that came with the gate, from then until their pods run. */
export class HeadroomKeeper {
  readonly #options: HeadroomKeeperOptions;
  readonly #queue: WorkQueue;
  readonly #pods: WatchedList<HeadroomPod, Parameters<typeof headroomPodOf>[0]>;
  readonly #podsOf = new MultiMap<string, string>(); // workload UID -> names
  /** Gated, or with headroom: few, and only for a moment each. */
  readonly #cared = new Set<string>();

  constructor(options: HeadroomKeeperOptions) {
    this.#options = options;
    const { client, log, settings } = options;
    this.#queue = new WorkQueue({
      concurrency: CONCURRENCY,
      backOff: BACK_OFF,
      log,
      work: (uid, signal) => this.#work(uid, signal),
    });
    const selection = { namespace: settings.namespace, labelSelector: LABEL.headroomForPod };
    const project = headroomPodOf;
    this.#pods = new WatchedList({ client, log, resource: PODS, selection, project });
    this.#pods.onChange((key, now, before) => {
      if (before !== undefined) this.#podsOf.delete(before.workloadUid, key);
      if (now === undefined) return;
      this.#podsOf.add(now.workloadUid, key);
      this.#care(now.workloadUid);
    });
  }

  get synced(): Promise<void> {
    return this.#pods.synced;
  }

  /** The list of headroom pods; the work itself begins with `work`. */
  follow(signal: AbortSignal): Promise<void> {
    return this.#pods.start(signal);
  }

  work(signal: AbortSignal): Promise<void> {
    return this.#queue.start(signal);
  }

  workloadChanged(now: Workload | undefined, before: Workload | undefined): void {
    if (now?.gated === true) this.#care(now.uid);
    for (const uid of [now?.uid, before?.uid]) {
      if (uid !== undefined && this.#cared.has(uid)) this.#queue.add(uid);
    }
  }

  /** A claim was bound, a Mountpoint Pod has started: whose it is does not matter, they are few. */
  worldChanged(): void {
    for (const uid of this.#cared) this.#queue.add(uid);
  }

  #care(uid: string): void {
    this.#cared.add(uid);
    this.#queue.add(uid);
  }

  async #work(uid: string, signal: AbortSignal): Promise<number | undefined> {
    const { world } = this.#options;
    const workload = world.workload(uid);
    // Not known may only be a lag: it is gone when it was seen to go, or nobody has its UID.
    if (workload === undefined && !(await this.#isGone(uid, signal))) return 1_000;
    const pods = Array.from(this.#podsOf.get(uid), (key) => this.#pods.get(key));
    const seen = {
      workload,
      claims: workload === undefined ? [] : world.claimsOf(workload),
      pods: pods.filter((pod) => pod !== undefined),
      nowMs: Date.now(),
    };
    const actions = decideHeadroom(seen);
    if (workload?.gated !== true && seen.pods.length === 0) this.#cared.delete(uid);
    let againMs: number | undefined;
    for (const action of actions) {
      if (action.do === "look-again") againMs = action.afterMs;
      else await this.#apply(action, workload, signal);
    }
    return againMs;
  }

  async #isGone(uid: string, signal: AbortSignal): Promise<boolean> {
    if (this.#options.world.isOver(uid) === true) return true;
    const labelSelector = `${LABEL.headroomForWorkload}=${uid}`;
    const { items } = await this.#options.client.list(PODS, { labelSelector }, signal);
    return items.length === 0;
  }

  async #apply(
    action: Exclude<HeadroomAction, { do: "look-again" }>,
    workload: Workload | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, settings, log } = this.#options;
    const { namespace } = settings;
    if (action.do === "delete-headroom") {
      const { name, uid } = action.pod;
      await unless("absent", client.delete(PODS, { namespace, name }, { uid }, signal));
      log.info({ pod: name, workload: action.pod.workloadUid }, "headroom given up");
    } else if (workload !== undefined && action.do === "create-headroom") {
      const pod = headroomPodFor(workload, action.volume, settings);
      await unless("conflict", client.create(PODS, pod, signal));
    } else if (workload !== undefined) {
      await this.#liftGate(workload, signal);
    }
  }

  async #liftGate({ namespace, name, uid }: Workload, signal: AbortSignal): Promise<void> {
    const { client, log } = this.#options;
    const pod = await client.find(PODS, { namespace, name }, signal);
    const patch = pod?.metadata?.uid === uid ? ungatedOf(pod) : undefined;
    if (patch === undefined) return;
    await unless("absent", client.patch(PODS, { namespace, name }, patch, signal));
    log.info({ workload: `${namespace}/${name}` }, "headroom is reserved, gate lifted");
  }
}

async function unless(done: Failure["kind"], work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind !== done) throw error;
  }
}
