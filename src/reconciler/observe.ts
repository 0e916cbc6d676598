import type { SharingKey } from "../volume/attachment.ts";
import type { Cluster } from "./cluster.ts";
import type { Observed } from "./observed.ts";
import type { Attachment, MountpointPod, Workload } from "./facts.ts";
import { isServing, mayHaveWrongSettings } from "./succession.ts";
import type { Lineage } from "./succession.ts";
import type { LastMount, World } from "./world.ts";

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
  const attributes = world.volume(key?.persistentVolumeName ?? "")?.attributes ?? {};
  const isOutdated = (pod: MountpointPod) => {
    if (key === undefined || !mayHaveWrongSettings(pod)) return false;
    const hash = cluster.settingsHashFor(pod.mountId, { attachment: name, key, attributes });
    return hash !== "" && hash !== pod.settingsHash;
  };
  const bound = new Set(known.filter(({ started }) => started).map(({ uid }) => uid));
  const lastMount = ({ uid }: Workload) => {
    return [uid, world.lastMount(uid, key?.persistentVolumeName ?? "")] as const;
  };
  const listed = listedUids(attachment);
  const unlisted = known.filter(({ uid }) => !listed.has(uid));
  const lastMounts = new Map(unlisted.map(lastMount).filter(hasMount));
  return {
    name,
    attachment,
    key,
    node: world.node(key?.nodeName ?? ""),
    attributes,
    wanting: known.filter((workload) => !workload.terminating),
    leaving: new Set(
      known.filter((workload) => workload.terminating).map((workload) => workload.uid),
    ),
    bound,
    lastMounts,
    gone: await goneUids({ attachment, key, bound }, made, world, cluster, signal),
    ...(await podsFor({ attachment, made, lastMounts, isOutdated }, world, cluster, signal)),
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

interface Known {
  readonly attachment: Attachment | undefined;
  readonly made: readonly MountpointPod[];
  readonly lastMounts: ReadonlyMap<string, LastMount>;
  readonly isOutdated: (pod: MountpointPod) => boolean;
}

async function podsFor(
  { attachment, made, lastMounts, isOutdated }: Known,
  world: World,
  cluster: Cluster,
  signal: AbortSignal,
): Promise<Pick<Observed, "pods" | "foreign" | "outdated" | "remembered">> {
  const pods = new Map(made.map((pod) => [pod.name, pod]));
  const outdated = new Set<string>();
  const remembered = new Map<string, Lineage>();
  const foreign = new Set(world.foreignPods);
  const listed = Object.keys(attachment?.spec.mountpointS3PodAttachments ?? {});
  const hindered = made.filter(isOutdated).map((pod) => pod.name);
  const last = Array.from(lastMounts.values(), ({ podName }) => podName);
  const asked = new Set([...listed, ...hindered, ...last]).difference(world.foreignPods);
  for (const name of asked) {
    const cached = world.pod(name);
    // One that is lost by the cache may have been another, removed, whose name was taken again.
    const isFresh = isServing(cached) && !isOutdated(cached);
    const pod = isFresh ? cached : await cluster.findPod(name, signal);
    const lineage = cached ?? world.lineage(name);
    if (lineage !== undefined) remembered.set(name, lineage);
    pods.delete(name);
    if (pod === "foreign") foreign.add(name);
    else if (pod !== undefined) pods.set(name, pod);
    if (!isFresh && typeof pod === "object" && isOutdated(pod)) outdated.add(name);
  }
  // The watches may have changed the others while the API server was asked.
  for (const name of new Set(pods.keys()).difference(asked)) {
    const pod = world.pod(name);
    if (pod === undefined) pods.delete(name);
    else pods.set(name, pod);
  }
  return { pods, foreign, outdated, remembered };
}

async function goneUids(
  { attachment, key, bound }: Pick<Observed, "attachment" | "key" | "bound">,
  made: readonly MountpointPod[],
  world: World,
  cluster: Cluster,
  signal: AbortSignal,
): Promise<Set<string>> {
  const listed = listedUids(attachment);
  const all = listed.union(new Set(made.map((pod) => pod.workloadUid)));
  const gone = new Set(Array.from(all).filter((uid) => world.isOver(uid) === true));
  // Where an attachment is missing under a workload, the pods that are left tell whose it was.
  const asked = attachment === undefined && bound.size > 0 ? all : listed;
  const unknown = Array.from(asked).filter((uid) => world.isOver(uid) === undefined);
  if (key === undefined || unknown.length === 0) return gone;
  const live = await cluster.liveUids(key.nodeName, signal);
  return gone.union(new Set(unknown.filter((uid) => !live.has(uid))));
}

function listedUids(attachment: Attachment | undefined): Set<string> {
  const entries = Object.values(attachment?.spec.mountpointS3PodAttachments ?? {}).flat();
  return new Set(entries.map((entry) => entry.workloadPodUID));
}

function hasMount(place: readonly [string, LastMount | undefined]): place is [string, LastMount] {
  return place[1] !== undefined;
}

function keyIn({ spec }: Attachment): SharingKey {
  return {
    nodeName: spec.nodeName,
    persistentVolumeName: spec.persistentVolumeName,
    volumeID: spec.volumeID,
    mountOptions: spec.mountOptions,
    ...(spec.mountOptionList && { mountOptionList: spec.mountOptionList }),
    workloadFSGroup: spec.workloadFSGroup,
    authenticationSource: spec.authenticationSource ?? "",
    workloadNamespace: spec.workloadNamespace ?? "",
    workloadServiceAccountName: spec.workloadServiceAccountName ?? "",
  };
}
