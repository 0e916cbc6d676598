import type { SharingKey } from "../volume/attachment.ts";
import type { Cluster } from "./cluster.ts";
import type { Observed } from "./decide.ts";
import type { Attachment, MountpointPod } from "./facts.ts";
import { isServing } from "./succession.ts";
import type { Lineage } from "./succession.ts";
import type { World } from "./world.ts";

/**
 * The picture for decide(): from the watches, and where they leave a gap that a lag could explain
 * (a pod or workload they do not know, a pod that is lost or that nobody lists) from a fresh read.
 * So what decide() takes for gone is gone, though the caches run behind our own writes.
 */
export async function observe(
  name: string,
  world: World,
  cluster: Cluster,
  constants: Pick<Observed, "driverVersion" | "engine" | "nowMs">,
  signal: AbortSignal,
): Promise<Observed> {
  const made = Array.from(world.podsOf(name));
  const attachment = await currentAttachment(name, made, world, cluster, signal);
  const known = Array.from(world.wanting(name));
  const key = attachment === undefined ? world.keyOf(name) : keyIn(attachment);
  return {
    name,
    attachment,
    key,
    node: world.node(key?.nodeName ?? ""),
    attributes: world.volume(key?.persistentVolumeName ?? "")?.attributes ?? {},
    wanting: known.filter((workload) => !workload.terminating),
    leaving: new Set(
      known.filter((workload) => workload.terminating).map((workload) => workload.uid),
    ),
    gone: await goneUids(attachment, made, world, cluster, signal),
    ...(await podsFor(attachment, made, world, cluster, signal)),
    ...constants,
  };
}

async function currentAttachment(
  name: string,
  made: readonly MountpointPod[],
  world: World,
  cluster: Cluster,
  signal: AbortSignal,
): Promise<Attachment | undefined> {
  const cached = world.attachment(name);
  const listed = cached?.spec.mountpointS3PodAttachments ?? {};
  const unlisted = made.some((pod) => !pod.needsUnmount && !Object.hasOwn(listed, pod.name));
  return unlisted ? cluster.findAttachment(name, signal) : cached;
}

async function podsFor(
  attachment: Attachment | undefined,
  made: readonly MountpointPod[],
  world: World,
  cluster: Cluster,
  signal: AbortSignal,
): Promise<Pick<Observed, "pods" | "remembered">> {
  const pods = new Map(made.map((pod) => [pod.name, pod]));
  const remembered = new Map<string, Lineage>();
  for (const name of Object.keys(attachment?.spec.mountpointS3PodAttachments ?? {})) {
    const cached = world.pod(name);
    // One that is lost by the cache may have been another, removed, whose name was taken again.
    const pod = isServing(cached) ? cached : await cluster.findPod(name, signal);
    const lineage = cached ?? world.lineage(name);
    if (lineage !== undefined) remembered.set(name, lineage);
    if (pod === undefined) pods.delete(name);
    else pods.set(name, pod);
  }
  return { pods, remembered };
}

async function goneUids(
  attachment: Attachment | undefined,
  made: readonly MountpointPod[],
  world: World,
  cluster: Cluster,
  signal: AbortSignal,
): Promise<Set<string>> {
  const entries = Object.values(attachment?.spec.mountpointS3PodAttachments ?? {}).flat();
  const listed = new Set(entries.map((entry) => entry.workloadPodUID));
  const all = listed.union(new Set(made.map((pod) => pod.workloadUid)));
  const gone = new Set(Array.from(all).filter((uid) => world.isOver(uid) === true));
  const unknown = Array.from(listed).filter((uid) => world.isOver(uid) === undefined);
  if (attachment === undefined || unknown.length === 0) return gone;
  const live = await cluster.liveUids(attachment.spec.nodeName, signal);
  return gone.union(new Set(unknown.filter((uid) => !live.has(uid))));
}

function keyIn({ spec }: Attachment): SharingKey {
  return {
    nodeName: spec.nodeName,
    persistentVolumeName: spec.persistentVolumeName,
    volumeID: spec.volumeID,
    mountOptions: spec.mountOptions,
    workloadFSGroup: spec.workloadFSGroup,
    authenticationSource: spec.authenticationSource ?? "",
    workloadNamespace: spec.workloadNamespace ?? "",
    workloadServiceAccountName: spec.workloadServiceAccountName ?? "",
  };
}
