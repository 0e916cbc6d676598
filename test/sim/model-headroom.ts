import { Failure } from "../../src/base/failure.ts";
import type { Workload } from "../../src/reconciler/facts.ts";
import type { HeadroomCluster } from "../../src/reconciler/headroom-keeper.ts";
import type { HeadroomPod } from "../../src/reconciler/headroom.ts";
import { labelValueOf, sha224 } from "../../src/volume/names.ts";
import type { ModelApi } from "./model-api.ts";

type Gate = <T>(call: () => T) => Promise<T>;

/** The keeper's part of the API server in memory, and a book of what it did there. */
export class ModelHeadroom {
  readonly #api: ModelApi;
  /** `workload volume` of headroom that somebody else's pod has pushed away. */
  readonly preempted = new Set<string>();
  /** By workload: how often its gate was lifted. */
  readonly lifted = new Map<string, number>();
  readonly harm = { liftedBare: 0, placeLost: 0 };

  constructor(api: ModelApi) {
    this.#api = api;
  }

  preempt(pod: HeadroomPod): void {
    this.preempted.add(placeOf(pod));
    this.#api.removeHeadroom(pod.name);
  }

  cluster(gate: Gate): HeadroomCluster {
    const { workloads } = this.#api;
    return {
      hasWorkload: ({ workloadUid }) => gate(() => workloads.has(workloadUid)),
      createHeadroom: ({ uid, namespace, name }, volume) =>
        gate(() => {
          const own = `hr-${sha224(`${uid}${volume.name}`)}`;
          if (this.#api.headroom.has(own)) return;
          this.#api.putHeadroom({
            name: own,
            uid: this.#api.nextUid("headroom"),
            workloadUid: uid,
            workloadPlace: { namespace, name },
            volumeLabel: labelValueOf(volume.name),
          });
        }),
      deleteHeadroom: ({ name, uid }) =>
        gate(() => {
          const pod = this.#api.headroom.get(name);
          if (pod === undefined) return;
          if (pod.uid !== uid) throw new Failure("stale", "another UID");
          if (this.isNeeded(pod)) this.harm.placeLost += 1;
          this.#api.removeHeadroom(name);
        }),
      liftGate: async ({ uid }) => {
        const read = await gate(() => workloads.get(uid));
        if (read?.gated !== true) return false;
        return gate(() => {
          if (workloads.get(uid) !== read) throw new Failure("stale", "changed meanwhile");
          this.#lift(read);
          return true;
        });
      },
    };
  }

  /** Its workload waits for the Mountpoint Pod whose place it holds. */
  isNeeded(pod: HeadroomPod): boolean {
    const workload = this.#api.workloads.get(pod.workloadUid);
    if (workload === undefined || workload.ended || workload.terminating) return false;
    return !this.#api.served.has(placeOf(pod));
  }

  /** The volumes of a workload for which nobody holds a place, and nobody was pushed away. */
  missing({ uid, claims }: Workload): string[] {
    const held = new Set(this.#api.headroom.values().map(placeOf));
    const volumes = claims.map((claim) => `${uid} ${claim.replace("claim", "pv")}`);
    return volumes.filter((place) => !held.has(place) && !this.preempted.has(place));
  }

  #lift(workload: Workload): void {
    const { uid, terminating, ended } = workload;
    this.lifted.set(uid, (this.lifted.get(uid) ?? 0) + 1);
    const goes = terminating || ended; // nobody schedules it any more
    if (!goes && this.missing(workload).length > 0) this.harm.liftedBare += 1;
    this.#api.putWorkload({ ...workload, gated: false, hadGate: true });
  }
}

function placeOf({ workloadUid, volumeLabel }: HeadroomPod): string {
  return `${workloadUid} ${volumeLabel}`;
}
