import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { EventWriter } from "../kube/event-writer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { NODES, PODS, PVCS, PVS } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { WorkQueue } from "../kube/work-queue.ts";
import { ATTACHMENTS } from "../volume/attachment.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { attachmentOf, claimOf, mountpointPodOf, nodeOf, volumeOf, workloadOf } from "./facts.ts";
import type { Workload } from "./facts.ts";
import { HeadroomKeeper } from "./headroom-keeper.ts";
import type { HeadroomSettings } from "./headroom.ts";
import { kubeCluster } from "./kube-cluster.ts";
import type { MountpointPodSettings } from "./mountpoint-pod.ts";
import { Reconciler } from "./reconciler.ts";
import { World } from "./world.ts";

export interface ReconcilerRunOptions {
  readonly client: KubeClient;
  readonly mountpointPods: MountpointPodSettings;
  /** Unset: gates are left alone. Set: workload pods are patched. */
  readonly headroom?: HeadroomSettings;
  /** Who writes the events: the controller's pod. */
  readonly instance: string;
  readonly log: Log;
  readonly sweepEveryMs?: number;
}

const SWEEP_EVERY_MS = 120_000;
/** As many as connections: a busy API server answers late, and an attach waits for it twice. */
const CONCURRENCY = 16;
const BACK_OFF = { firstMs: 200, maxMs: 60_000 } as const;

/** Resolves when the signal has aborted and the last write has ended. Rejects only for a bug. */
export async function startReconciler(
  options: ReconcilerRunOptions,
  signal: AbortSignal,
): Promise<void> {
  const { client, log } = options;
  const instance = { controller: DRIVER_NAME, instance: options.instance };
  const events = new EventWriter(client, instance, log);
  const warn = (workload: Workload, reason: string, note: string) => {
    const regarding = { apiVersion: "v1", kind: "Pod", ...placeOf(workload) };
    const text = { type: "Warning", action: "AttachVolume", reason, note } as const;
    return events.write(regarding, text, signal);
  };
  const world = new World((workload, volume, problem) => {
    void warn(workload, "InvalidVolume", `volume ${volume.name}: ${problem.message}`);
  });
  const reconciler = new Reconciler({
    world,
    cluster: kubeCluster(client, options.mountpointPods),
    driverVersion: options.mountpointPods.driverVersion,
    log,
    nowMs: Date.now,
    tell: ({ workload, reason, note }) => warn(workload, reason, note),
  });
  const queue = new WorkQueue({
    concurrency: CONCURRENCY,
    backOff: BACK_OFF,
    log,
    async work(name, workSignal) {
      try {
        return await reconciler.reconcile(name, workSignal);
      } catch (error) {
        await explain(error, world.wanting(name), warn);
        throw error;
      }
    },
  });
  const { headroom: settings } = options;
  const keeper = settings && new HeadroomKeeper({ client, world, settings, log });
  const lists = watchAll(options, world, reconciler, queue, keeper);
  const following = lists.map((list) => list.start(signal));
  if (keeper !== undefined) following.push(keeper.follow(signal));
  // Decisions need the whole picture: a world without its workloads would look all gone.
  const picture = Promise.all([...lists.map((list) => list.synced), keeper?.synced]);
  await Promise.race([picture, Promise.all(following)]);
  log.info({ attachments: world.names().size }, "reconciler has the picture");
  const sweep = setInterval(() => {
    for (const name of world.names()) queue.add(name);
  }, options.sweepEveryMs ?? SWEEP_EVERY_MS);
  try {
    await Promise.all([queue.start(signal), keeper?.work(signal), ...following]);
  } finally {
    clearInterval(sweep);
  }
}

function watchAll(
  { client, mountpointPods, log }: ReconcilerRunOptions,
  world: World,
  reconciler: Reconciler,
  queue: WorkQueue,
  keeper: HeadroomKeeper | undefined,
): readonly Pick<WatchedList<unknown>, "start" | "synced">[] {
  const add = (names: ReadonlySet<string>) => {
    for (const name of names) queue.add(name);
  };
  const workloads = new WatchedList({ client, log, resource: PODS, project: workloadOf });
  workloads.onChange((_key, now, before) => {
    reconciler.workloadSeen(now, before);
    add(world.workloadChanged(now, before));
    keeper?.workloadChanged(now, before);
  });
  const claims = new WatchedList({ client, log, resource: PVCS, project: claimOf });
  claims.onChange((key, now) => {
    add(world.claimChanged(key, now));
    keeper?.worldChanged();
  });
  const volumes = new WatchedList({ client, log, resource: PVS, project: volumeOf });
  volumes.onChange((key, now, before) => {
    add(world.volumeChanged(key, now, before));
    keeper?.worldChanged();
  });
  const selection = { namespace: mountpointPods.namespace };
  const pods = new WatchedList({
    client,
    log,
    resource: PODS,
    selection,
    project: mountpointPodOf,
  });
  pods.onChange((_key, now, before) => {
    const name = now?.name ?? before?.name ?? "";
    add(world.podChanged(name, now, before));
    keeper?.worldChanged();
  });
  const attachments = new WatchedList({
    client,
    log,
    resource: ATTACHMENTS,
    project: attachmentOf,
  });
  attachments.onChange((key, now, before) => add(world.attachmentChanged(key, now, before)));
  const nodes = new WatchedList({ client, log, resource: NODES, project: nodeOf });
  nodes.onChange((key, now, before) => add(world.nodeChanged(key, now, before)));
  return [workloads, claims, volumes, pods, attachments, nodes];
}

/** A user looks at the pod that waits, not at our log. */
async function explain(
  error: unknown,
  waiting: Iterable<Workload>,
  warn: (workload: Workload, reason: string, note: string) => Promise<void>,
): Promise<void> {
  if (!(error instanceof Failure) || error.kind === "stale") return;
  for (const workload of waiting) await warn(workload, "FailedMountpointPod", error.message);
}

function placeOf({ namespace, name, uid }: Workload) {
  return { namespace, name, uid };
}
