import { engineOf, isOwnMount } from "../volume/engine.ts";
import type { Engine } from "../volume/engine.ts";
import type { MountpointPod } from "./facts.ts";
import { isHindered, isServing } from "./succession.ts";
import type { World } from "./world.ts";

/** The places of its namespace that an attachment takes, or waits for. */
export interface Share {
  readonly namespace: string;
  readonly mounts: ReadonlySet<string>;
  /** A Mountpoint Pod, or its successor to come, takes new workloads: they cost no place. */
  readonly isOpen: boolean;
  /** UIDs of workloads that a write which failed or is under way left a Mountpoint Pod for. */
  readonly left: ReadonlySet<string>;
  /** UIDs of workloads that wait for a Mountpoint Pod, with the time of their creation. */
  readonly waiting: ReadonlyMap<string, number>;
  /** UIDs of workloads that have one. */
  readonly served: ReadonlySet<string>;
}

/** Undefined: nothing is known that would count for a namespace. */
export function shareOf(
  name: string,
  world: World,
  engine: Engine,
  before: Share | undefined,
): Share | undefined {
  const workloads = Array.from(world.wanting(name));
  const pods = Array.from(world.podsOf(name));
  const listed = listedMounts(name, world);
  const mounts = new Set(pods.filter((pod) => !pod.finished).map((pod) => pod.mountId));
  for (const { mountId, uids } of listed) if (uids.length > 0) mounts.add(mountId);
  if (mounts.size === 0 && workloads.length === 0) return undefined;
  const spec = world.attachment(name)?.spec;
  const pvName = spec?.persistentVolumeName ?? world.keyOf(name)?.persistentVolumeName ?? "";
  const namespace =
    workloads[0]?.namespace ??
    pods.find((pod) => pod.workloadNamespace !== "")?.workloadNamespace ??
    before?.namespace ??
    world.volume(pvName)?.claimKey.split("/")[0];
  if (namespace === undefined) return undefined;
  const served = new Set(listed.flatMap(({ uids }) => uids));
  const staying = workloads.filter(({ terminating }) => !terminating);
  const unserved = staying.filter(({ uid }) => !served.has(uid));
  // A workload that has started is bound to its mount, and is listed again whatever the limit is.
  // Without a mount that is known, the driver's first version has made one.
  for (const { uid } of unserved.filter(({ started }) => started)) {
    const last = world.lastMount(uid, pvName);
    if (last === undefined) continue;
    mounts.add(last.mountId);
    served.add(uid);
  }
  const stayingUids = new Set(staying.map(({ uid }) => uid));
  const waiting = unserved.filter(({ started }) => !started);
  const left = pods.filter((pod) => {
    const isGood = isServing(pod) && !isHindered(pod) && !pod.noNewWorkload;
    const isListed = listed.some(({ podName }) => podName === pod.name);
    return isGood && !isListed && engineOf(pod.mountId) === engine;
  });
  return {
    namespace,
    mounts,
    isOpen: listed.some(
      (one) => engineOf(one.mountId) === engine && isOpen(one, stayingUids, world),
    ),
    left: new Set(left.filter(hasOwnMount).map(({ workloadUid }) => workloadUid)),
    waiting: new Map(waiting.map(({ uid, createdMs }) => [uid, createdMs])),
    served,
  };
}

/** A Mountpoint Pod that the attachment lists, with the UIDs of its workloads. */
interface Listed {
  readonly podName: string;
  readonly mountId: string;
  readonly uids: readonly string[];
}

function listedMounts(name: string, world: World): Listed[] {
  const { mountpointS3PodAttachments = {}, mountIDs = {} } = world.attachment(name)?.spec ?? {};
  return Object.entries(mountpointS3PodAttachments).map(([podName, entries]) => {
    const mountId = world.pod(podName)?.mountId ?? mountIDs[podName] ?? podName;
    return { podName, mountId, uids: entries.map((entry) => entry.workloadPodUID) };
  });
}

/**
 * A pod that fails, or has not started with settings that have changed, gets a successor while a
 * workload of it is not terminating. New workloads wait for that one: a second mount would take a
 * place that may be reserved for another volume.
 */
function isOpen({ podName, uids }: Listed, staying: ReadonlySet<string>, world: World): boolean {
  if (world.foreignPods.has(podName)) return false;
  const pod = world.pod(podName);
  if (isServing(pod) && pod.noNewWorkload) return false;
  if (uids.some((uid) => staying.has(uid))) return true;
  return isServing(pod) && !isHindered(pod) && pod.started;
}

function hasOwnMount({ name, mountId }: MountpointPod): boolean {
  return isOwnMount(name, mountId);
}

export function usersOf(share: Share | undefined): ReadonlySet<string> {
  return new Set([...(share?.waiting.keys() ?? []), ...(share?.served ?? [])]);
}

export function isSame(one: Share | undefined, other: Share | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const isAlike =
    one.namespace === other.namespace &&
    one.mounts.size === other.mounts.size &&
    one.isOpen === other.isOpen &&
    one.waiting.size === other.waiting.size &&
    one.left.size === other.left.size &&
    one.served.size === other.served.size;
  return (
    isAlike &&
    one.mounts.isSubsetOf(other.mounts) &&
    one.left.isSubsetOf(other.left) &&
    one.waiting.keys().every((uid) => other.waiting.has(uid)) &&
    one.served.isSubsetOf(other.served)
  );
}
