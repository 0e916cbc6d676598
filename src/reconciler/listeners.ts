import type { Attachment, Claim, MountpointPod, NodeFacts, Volume, Workload } from "./facts.ts";
import type { HeadroomKeeper } from "./headroom-keeper.ts";
import type { HeadroomPod } from "./headroom.ts";
import type { NamespaceLimit } from "./namespace-limit.ts";
import type { Reconciler } from "./reconciler.ts";
import type { DriverFacts, RepublishKeeper } from "./republish.ts";
import type { World } from "./world.ts";

/** Of what the watches tell. */
export interface Told {
  readonly workload: Workload;
  readonly claim: Claim;
  readonly volume: Volume;
  readonly pod: MountpointPod;
  /** The name of a Mountpoint Pod of another driver. */
  readonly foreignPod: string;
  readonly attachment: Attachment;
  readonly node: NodeFacts;
  readonly headroom: HeadroomPod;
  readonly driver: DriverFacts;
}

type Listener<V> = (key: string, now: V | undefined, before: V | undefined) => void;
export type Listeners = { readonly [Kind in keyof Told]: Listener<Told[Kind]> };

/** Whatever is switched on. */
export interface Keepers {
  readonly keeper?: HeadroomKeeper | undefined;
  readonly republish?: RepublishKeeper | undefined;
  readonly limit?: NamespaceLimit | undefined;
}

/** Who has to know what a watch tells. In one place, so that the simulation has the same wires. */
export function listenersOf(
  world: World,
  reconciler: Reconciler,
  enqueue: (name: string) => void,
  { keeper, republish, limit }: Keepers = {},
): Listeners {
  const add = (names: ReadonlySet<string>) => {
    limit?.changed(names);
    for (const name of names) enqueue(name);
  };
  return {
    workload(_key, now, before) {
      reconciler.workloadSeen(now, before);
      add(world.workloadChanged(now, before));
      keeper?.workloadChanged(now, before);
    },
    claim(key, now) {
      add(world.claimChanged(key, now));
      keeper?.worldChanged();
    },
    volume(key, now, before) {
      add(world.volumeChanged(key, now, before));
      republish?.volumeChanged(key, now);
      keeper?.worldChanged();
    },
    pod(_key, now, before) {
      add(world.podChanged(now?.name ?? before?.name ?? "", now, before));
      keeper?.worldChanged();
    },
    foreignPod(_key, now, before) {
      const name = now ?? before;
      if (name !== undefined) add(world.foreignPodChanged(name, now !== undefined));
    },
    attachment(key, now, before) {
      add(world.attachmentChanged(key, now, before));
      republish?.attachmentChanged(key, now);
      keeper?.worldChanged();
    },
    node: (key, now, before) => add(world.nodeChanged(key, now, before)),
    headroom: (key, now, before) => keeper?.podChanged(key, now, before),
    driver: (_key, now) => republish?.driverChanged(now),
  };
}
