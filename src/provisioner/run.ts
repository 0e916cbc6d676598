import { isDeepStrictEqual } from "node:util";
import type { Log } from "../base/log.ts";
import { EventWriter } from "../kube/event-writer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PVCS, PVS, STORAGE_CLASSES } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { WorkQueue } from "../kube/work-queue.ts";
import type { WorkQueueOptions } from "../kube/work-queue.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { claimOf, classOf, volumeNameOf, volumeOf } from "./facts.ts";
import type { Claim } from "./facts.ts";
import { kubeCluster } from "./kube-cluster.ts";
import { Provisioner } from "./provisioner.ts";
import type { Driver, ProvisionerOptions } from "./provisioner.ts";

export interface ProvisionerRunOptions {
  readonly client: KubeClient;
  readonly driver: Driver;
  /** When this driver came to the cluster: older classes were made for another one. */
  readonly installedMs: number;
  /** Who writes the events: the controller's pod. */
  readonly instance: string;
  readonly log: Log;
  readonly backOff?: { readonly firstMs: number; readonly maxMs: number };
  readonly attemptLimitMs?: number;
}

const CONCURRENCY = 16;
const SEEN_WITHIN_MS = 1_000;
const BACK_OFF = { firstMs: 500, maxMs: 60_000 } as const;

/** Resolves when the signal has aborted and the last write has ended. Rejects only for a bug. */
export async function startProvisioner(
  options: ProvisionerRunOptions,
  signal: AbortSignal,
): Promise<void> {
  const { client, driver, log, installedMs, attemptLimitMs } = options;
  const provisioner = new Provisioner({
    cluster: kubeCluster(client),
    driver,
    installedMs,
    log,
    events: eventsOf(options, signal),
    ...(attemptLimitMs === undefined ? {} : { attemptLimitMs }),
  });
  const claims = new WatchedList({ client, log, resource: PVCS, project: claimOf });
  const volumes = new WatchedList({ client, log, resource: PVS, project: volumeOf });
  const classes = new WatchedList({ client, log, resource: STORAGE_CLASSES, project: classOf });
  const backOff = options.backOff ?? BACK_OFF;
  const queue = (work: WorkQueueOptions["work"]) =>
    new WorkQueue({ concurrency: CONCURRENCY, backOff, log, work });
  const claimQueue = queue(async (key, workSignal) => {
    const claim = claims.get(key);
    if (claim === undefined) return undefined;
    const name = volumeNameOf(claim);
    const storageClass = classes.get(claim.className);
    const done = await provisioner.handleClaim(claim, storageClass, volumes.get(name), workSignal);
    if (done !== "provision") return undefined;
    // Else a change of the claim that waits in the queue would meet a picture without the PV.
    const limit = AbortSignal.any([workSignal, AbortSignal.timeout(SEEN_WITHIN_MS)]);
    await volumes.until((list) => list.get(name), limit).catch(() => undefined);
    return undefined;
  });
  const volumeQueue = queue(async (key, workSignal) => {
    const volume = volumes.get(key);
    if (volume === undefined) return undefined;
    return provisioner.handleVolume(volume, classes.get(volume.className), workSignal);
  });
  claims.onChange((key, now, before) => {
    if (!isOurOwnMark(now, before)) claimQueue.add(key);
  });
  volumes.onChange((key, now, before) => {
    volumeQueue.add(key);
    const { namespace, name } = (now ?? before)?.claim ?? { namespace: "", name: "" };
    claimQueue.add(`${namespace}/${name}`);
  });
  classes.onChange((className) => {
    for (const claim of claims.values()) {
      if (claim.className === className) claimQueue.add(`${claim.namespace}/${claim.name}`);
    }
  });
  const lists = [claims, volumes, classes];
  const following = lists.map((list) => list.start(signal));
  // A claim without its volume in the picture would look as if it still needed one.
  const picture = Promise.all(lists.map((list) => list.synced));
  await Promise.race([picture, Promise.all(following)]);
  log.info("provisioner caches synced");
  await Promise.all([claimQueue.start(signal), volumeQueue.start(signal), ...following]);
}

/**
 * Our finalizer came or went with its note, and nothing else: we know. To look again at once would
 * undo the pause after a failure, since each attempt leaves such marks.
 */
export function isOurOwnMark(now: Claim | undefined, before: Claim | undefined): boolean {
  if (now === undefined || before === undefined || now.isTerminating) return false;
  const { isHeld, note, resourceVersion } = before;
  const hasMark = now.isHeld !== isHeld || !isDeepStrictEqual(now.note, note);
  return hasMark && isDeepStrictEqual({ ...now, isHeld, note, resourceVersion }, before);
}

/** Written beside the work: an event that is late or lost changes nothing. */
function eventsOf(
  { client, instance, log }: ProvisionerRunOptions,
  signal: AbortSignal,
): ProvisionerOptions["events"] {
  const writer = new EventWriter(client, { controller: DRIVER_NAME, instance }, log);
  const claimRef = { apiVersion: "v1", kind: "PersistentVolumeClaim" };
  return {
    claim({ namespace, name, uid }, type, reason, note) {
      const regarding = { ...claimRef, namespace, name, uid };
      void writer.write(regarding, { type, reason, action: "Provision", note }, signal);
    },
    volume({ name, uid, claim }, type, reason, note) {
      const text = { type, reason, action: "DeleteVolume", note };
      const regarding = { apiVersion: "v1", kind: "PersistentVolume", name, uid };
      void writer.write(regarding, text, signal);
      // The PV is about to go, and tenants see only their own namespace.
      void writer.write({ ...claimRef, ...claim }, text, signal);
    },
  };
}
