import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { EventWriter } from "../kube/event-writer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { CSI_DRIVERS, NODES, PODS, PVCS, PVS } from "../kube/resource.ts";
import type { Pod } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { WorkQueue } from "../kube/work-queue.ts";
import { ATTACHMENTS } from "../volume/attachment.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import {
  attachmentOf,
  claimOf,
  isForeignMountpointPod,
  mountpointPodOf,
  nodeOf,
  volumeOf,
  workloadOf,
} from "./facts.ts";
import type { Workload } from "./facts.ts";
import { HeadroomKeeper } from "./headroom-keeper.ts";
import { headroomPodOf } from "./headroom.ts";
import type { HeadroomSettings } from "./headroom.ts";
import { kubeCluster } from "./kube-cluster.ts";
import { kubeHeadroom } from "./kube-headroom.ts";
import { NamespaceLimit } from "./namespace-limit.ts";
import { listenersOf } from "./listeners.ts";
import type { Listeners, Told } from "./listeners.ts";
import type { MountpointPodSettings } from "./mountpoint-pod.ts";
import { PodOwner, unownedPodOf } from "./pod-owner.ts";
import type { UnownedPod } from "./pod-owner.ts";
import { Reconciler } from "./reconciler.ts";
import { driverOf, RepublishKeeper } from "./republish.ts";
import { World } from "./world.ts";

export interface ReconcilerRunOptions {
  readonly client: KubeClient;
  readonly mountpointPods: MountpointPodSettings;
  /** Unset: gates are left alone. Set: workload pods are patched. */
  readonly headroom?: HeadroomSettings;
  /** The most Mountpoint Pods that the workloads of one namespace may have. */
  readonly limitPerNamespace?: number | undefined;
  /** Whether kubelets repeat publishes is ours to say: the CSIDriver object is patched. */
  readonly republish?: boolean;
  /** Who writes the events: the controller's pod. */
  readonly instance: string;
  readonly log: Log;
  readonly sweepEveryMs?: number;
}

const SWEEP_EVERY_MS = 120_000;
/** As many as connections: a busy API server answers late, and an attach waits for it twice. */
const CONCURRENCY = 16;
const HEADROOM_CONCURRENCY = 4;
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
  const owner = ownerWork(options);
  const enqueue = (name: string) => queue.add(name);
  const { limitPerNamespace } = options;
  const { engine } = options.mountpointPods;
  const limit =
    limitPerNamespace === undefined
      ? undefined
      : new NamespaceLimit({ world, limit: limitPerNamespace, engine, enqueue });
  const reconciler = new Reconciler({
    world,
    limit,
    cluster: kubeCluster(client, podSettingsOf(options), owner.keeper, {
      pod: (pod) => lists.pods.wrote(pod),
      attachment: (attachment) => lists.attachments.wrote(attachment),
    }),
    driverVersion: options.mountpointPods.driverVersion,
    engine,
    log,
    nowMs: Date.now,
    tell: ({ workload, reason, note }) => warn(workload, reason, note),
  });
  const queue: WorkQueue = new WorkQueue({
    concurrency: CONCURRENCY,
    backOff: BACK_OFF,
    log,
    async work(name, workSignal, calm) {
      try {
        return await reconciler.reconcile(name, workSignal, calm);
      } catch (error) {
        await explain(error, "FailedMountpointPod", world.concerned(name), warn);
        throw error;
      }
    },
  });
  const headroom = headroomWork(options, world, owner.keeper, warn);
  const republish = options.republish === true ? republishWork(options) : undefined;
  const keepers = { keeper: headroom?.keeper, republish: republish?.keeper, limit };
  const listeners = listenersOf(world, reconciler, enqueue, keepers);
  const lists = watchAll(options, listeners, owner.keeper);
  const following = Object.values(lists).map((list) => list.start(signal));
  const followingOwner = owner.keeper.follow(signal); // nobody waits for it
  // Decisions need the whole picture: a world without its workloads would look all gone.
  const picture = Promise.all(Object.values(lists).map((list) => list.synced));
  await Promise.race([picture, Promise.all(following)]);
  log.info({ attachments: world.names().size }, "reconciler caches synced");
  const sweep = setInterval(() => {
    for (const name of world.names()) queue.add(name);
  }, options.sweepEveryMs ?? SWEEP_EVERY_MS);
  try {
    const queues = [queue, headroom?.queue, republish?.queue, owner.queue];
    const working = queues.map((one) => one?.start(signal));
    await Promise.all([...working, ...following, followingOwner]);
  } finally {
    clearInterval(sweep);
  }
}

/** Without headroom its class does not exist, though workloads may have its label from before. */
function podSettingsOf({ mountpointPods, headroom }: ReconcilerRunOptions): MountpointPodSettings {
  const { priorityClassName } = mountpointPods;
  if (headroom !== undefined) return mountpointPods;
  return { ...mountpointPods, preemptingPriorityClassName: priorityClassName };
}

/** Where headroom is switched on. */
function headroomWork(
  { client, headroom, log }: ReconcilerRunOptions,
  world: World,
  owner: PodOwner,
  warn: Warn,
) {
  if (headroom === undefined) return undefined;
  const queue: WorkQueue = new WorkQueue({
    concurrency: HEADROOM_CONCURRENCY,
    backOff: BACK_OFF,
    log,
    async work(uid, signal) {
      try {
        return await keeper.work(uid, signal);
      } catch (error) {
        const workload = world.workload(uid);
        await explain(error, "FailedHeadroom", workload?.gated === true ? [workload] : [], warn);
        throw error;
      }
    },
  });
  const enqueue = (uid: string) => queue.add(uid);
  const cluster = kubeHeadroom(client, headroom, owner);
  const keeper = new HeadroomKeeper({ cluster, world, log, nowMs: Date.now, enqueue });
  return { keeper, queue };
}

function republishWork({ client, log }: ReconcilerRunOptions) {
  const queue: WorkQueue = new WorkQueue({
    concurrency: 1,
    backOff: BACK_OFF,
    log,
    async work(_name, signal) {
      await keeper.work(signal);
      return undefined;
    },
  });
  const keeper = new RepublishKeeper({
    enqueue: () => queue.add(DRIVER_NAME),
    log,
    async write(requiresRepublish, signal) {
      await client.patch(
        CSI_DRIVERS,
        { name: DRIVER_NAME },
        { spec: { requiresRepublish } },
        signal,
      );
    },
  });
  return { keeper, queue };
}

function ownerWork({ client, mountpointPods, log }: ReconcilerRunOptions) {
  const queue: WorkQueue = new WorkQueue({
    concurrency: 1,
    backOff: BACK_OFF,
    log,
    async work(key, signal) {
      await keeper.work(key, signal);
      return undefined;
    },
  });
  const enqueue = (key: string) => queue.add(key);
  const keeper = new PodOwner({ client, namespace: mountpointPods.namespace, log, enqueue });
  return { keeper, queue };
}

function watchAll(options: ReconcilerRunOptions, listeners: Listeners, owner: PodOwner) {
  const { client, log } = options;
  const project = (pod: Pod) => seenIn(pod, options);
  const pods = new WatchedList({ client, log, resource: PODS, project });
  pods.onChange((key, now, before) => {
    const { workload, pod, headroom, foreignPod } = listeners;
    if (now?.workload ?? before?.workload) workload(key, now?.workload, before?.workload);
    if (now?.pod ?? before?.pod) pod(key, now?.pod, before?.pod);
    if (now?.foreignPod ?? before?.foreignPod) foreignPod(key, now?.foreignPod, before?.foreignPod);
    if (now?.headroom ?? before?.headroom) headroom(key, now?.headroom, before?.headroom);
    if (now?.unowned ?? before?.unowned) owner.podChanged(key, now?.unowned);
  });
  const claims = new WatchedList({ client, log, resource: PVCS, project: claimOf });
  claims.onChange(listeners.claim);
  const volumes = new WatchedList({ client, log, resource: PVS, project: volumeOf });
  volumes.onChange(listeners.volume);
  const attachments = new WatchedList({
    client,
    log,
    resource: ATTACHMENTS,
    project: attachmentOf,
  });
  attachments.onChange(listeners.attachment);
  const nodes = new WatchedList({ client, log, resource: NODES, project: nodeOf });
  nodes.onChange(listeners.node);
  const lists = { pods, claims, volumes, attachments, nodes };
  if (options.republish !== true) return lists;
  const selection = { fieldSelector: `metadata.name=${DRIVER_NAME}` };
  const of = { resource: CSI_DRIVERS, selection, project: driverOf };
  const drivers = new WatchedList({ client, log, ...of });
  drivers.onChange(listeners.driver);
  return { ...lists, drivers };
}

interface SeenPod extends Partial<Pick<Told, "workload" | "pod" | "foreignPod" | "headroom">> {
  readonly unowned?: UnownedPod;
}

/** What a pod is to us. In one watch: pods are most of what the API server has to tell. */
function seenIn(pod: Pod, { mountpointPods, headroom }: ReconcilerRunOptions): SeenPod | undefined {
  const namespace = pod.metadata?.namespace;
  if (namespace === mountpointPods.namespace && isForeignMountpointPod(pod)) {
    return { foreignPod: pod.metadata?.name ?? "" };
  }
  const mountpoint = namespace === mountpointPods.namespace ? mountpointPodOf(pod) : undefined;
  const place = namespace === headroom?.namespace ? headroomPodOf(pod) : undefined;
  // A Mountpoint Pod with its cache on a volume of this driver would need one itself, without end.
  const workload = mountpoint === undefined ? workloadOf(pod) : undefined;
  if (workload === undefined && mountpoint === undefined && place === undefined) return undefined;
  const isOurs = mountpoint !== undefined || place !== undefined;
  const unowned = isOurs ? unownedPodOf(pod) : undefined;
  return {
    ...(workload && { workload }),
    ...(mountpoint && { pod: mountpoint }),
    ...(place && { headroom: place }),
    ...(unowned && { unowned }),
  };
}

type Warn = (workload: Workload, reason: string, note: string) => Promise<void>;

/** A user looks at the pod that waits, not at our log. */
async function explain(
  error: unknown,
  reason: string,
  waiting: Iterable<Workload>,
  warn: Warn,
): Promise<void> {
  if (!(error instanceof Failure) || error.kind === "stale") return;
  for (const workload of waiting) await warn(workload, reason, error.message);
}

function placeOf({ namespace, name, uid }: Workload) {
  return { namespace, name, uid };
}
