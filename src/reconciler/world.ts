import { Failure } from "../base/failure.ts";
import { attachmentNameOf, mountpointPodOf } from "../volume/attachment.ts";
import type { SharingKey } from "../volume/attachment.ts";
import type { Attachment, Claim, MountpointPod, NodeFacts, Volume, Workload } from "./facts.ts";
import type { BoundClaim } from "./headroom.ts";
import { MultiMap } from "./multi-map.ts";
import type { Lineage } from "./succession.ts";
import { sharingKeyOf } from "./sharing-key.ts";

export type OnProblem = (workload: Workload, volume: Volume, problem: Failure) => void;
type Names = ReadonlySet<string>;

const GONE_REMEMBERED_MAX = 10_000;

/** The mount that a workload is bound to, and the pod that was the last to be listed for both. */
export interface LastMount {
  readonly mountId: string;
  readonly podName: string;
}

/**
 * The cluster as the watches have told it, with the indexes that lead from any change to the
 * attachments it touches. Every `…Changed` returns their names.
 */
export class World {
  readonly #workloads = new Map<string, Workload>();
  readonly #claims = new Map<string, Claim>();
  readonly #volumes = new Map<string, Volume>();
  readonly #pods = new Map<string, MountpointPod>();
  readonly #attachments = new Map<string, Attachment>();
  readonly #nodes = new Map<string, NodeFacts>();

  readonly #workloadsOfClaim = new MultiMap<string, string>();
  readonly #wantedBy = new MultiMap<string, string>(); // attachment -> workload UIDs
  readonly #wants = new Map<string, Names>(); // workload UID -> attachments
  readonly #keys = new Map<string, SharingKey>(); // of what is wanted
  readonly #listing = new MultiMap<string, string>(); // workload UID or pod name -> attachments
  readonly #podsOf = new MultiMap<string, string>(); // attachment -> pods made for it
  /** Workloads seen to end or vanish. UIDs never come back, so this never becomes wrong. */
  readonly #gone = new Set<string>();
  /** Workload UID -> PV -> mount, of live workloads that an attachment has ceased to list. */
  readonly #lastMounts = new Map<string, Map<string, LastMount>>();
  /** Of Mountpoint Pods that have vanished: their successors are named after it. */
  readonly #lineages = new Map<string, Lineage>();
  /** Names of Mountpoint Pods that another driver has made. */
  readonly #foreign = new Set<string>();
  readonly #onProblem: OnProblem;

  constructor(onProblem: OnProblem) {
    this.#onProblem = onProblem;
  }

  attachment(name: string): Attachment | undefined {
    return this.#attachments.get(name);
  }

  pod(name: string): MountpointPod | undefined {
    return this.#pods.get(name);
  }

  get foreignPods(): ReadonlySet<string> {
    return this.#foreign;
  }

  lineage(podName: string): Lineage | undefined {
    return this.#lineages.get(podName);
  }

  workload(uid: string): Workload | undefined {
    return this.#workloads.get(uid);
  }

  volume(name: string): Volume | undefined {
    return this.#volumes.get(name);
  }

  node(name: string): NodeFacts | undefined {
    return this.#nodes.get(name);
  }

  keyOf(name: string): SharingKey | undefined {
    return this.#keys.get(name);
  }

  /** The mount that served a workload before its entry was removed from an attachment by hand. */
  lastMount(workloadUid: string, pvName: string): LastMount | undefined {
    return this.#lastMounts.get(workloadUid)?.get(pvName);
  }

  /** Workloads that wait for the attachment or are listed in it: its troubles concern them. */
  *concerned(name: string): Generator<Workload, void, undefined> {
    for (const workload of this.wanting(name)) {
      if (!workload.started || this.#listing.get(workload.uid).has(name)) yield workload;
    }
  }

  /** Scheduled workloads of the attachment that have not ended; terminating ones too. */
  *wanting(name: string): Generator<Workload, void, undefined> {
    for (const uid of this.#wantedBy.get(name)) {
      const workload = this.#workloads.get(uid);
      if (workload !== undefined) yield workload;
    }
  }

  /** Made for the attachment, and listed by no other. */
  *podsOf(name: string): Generator<MountpointPod, void, undefined> {
    for (const podName of this.#podsOf.get(name)) {
      const pod = this.#pods.get(podName);
      const elsewhere = Array.from(this.#listing.get(podName)).some((other) => other !== name);
      if (pod !== undefined && !elsewhere) yield pod;
    }
  }

  /** Undefined: not known here, which may only be a lag. */
  isOver(uid: string): boolean | undefined {
    if (this.#gone.has(uid)) return true;
    return this.#workloads.get(uid)?.ended; // of those who ended, not all are remembered
  }

  /** Everything there is to look at: for the sweep. */
  names(): Names {
    const wanted = new Set(this.#wantedBy.keys());
    return wanted.union(new Set(this.#attachments.keys())).union(new Set(this.#podsOf.keys()));
  }

  /** What is known of a workload's claims, scheduled or not. */
  claimsOf(workload: Workload): BoundClaim[] {
    return workload.claims.map((claim) => {
      const key = pathOf(workload, claim);
      const volume = this.#volumeOf(key);
      const named = this.#claims.get(key)?.volumeName ?? "";
      // A static claim can name a volume of this driver long before Kubernetes binds the two.
      const isBinding = volume === undefined && this.#volumes.has(named);
      const volumeName = isBinding ? "" : named;
      const served = volume !== undefined && this.#isServed(workload, volume);
      return { volumeName, volume, served };
    });
  }

  #isServed(workload: Workload, volume: Volume): boolean {
    const name = this.#listedFor(workload, volume) ?? "";
    const listed = this.#attachments.get(name)?.spec.mountpointS3PodAttachments ?? {};
    return Object.entries(listed).some(([pod, entries]) => {
      const isHere = entries.some((entry) => entry.workloadPodUID === workload.uid);
      return isHere && this.#pods.get(pod)?.started === true;
    });
  }

  workloadChanged(now: Workload | undefined, before: Workload | undefined): Names {
    let touched: Names = new Set();
    if (before !== undefined && before.uid !== now?.uid) {
      this.#workloads.delete(before.uid);
      this.#lastMounts.delete(before.uid);
      this.#remember(before.uid);
      for (const claim of before.claims)
        this.#workloadsOfClaim.delete(pathOf(before, claim), before.uid);
      touched = touched.union(this.#refresh(before.uid));
    }
    if (now === undefined) return touched;
    this.#workloads.set(now.uid, now);
    if (now.ended) this.#remember(now.uid);
    for (const claim of now.claims) this.#workloadsOfClaim.add(pathOf(now, claim), now.uid);
    return touched.union(this.#refresh(now.uid));
  }

  claimChanged(key: string, now: Claim | undefined): Names {
    put(this.#claims, key, now);
    return this.#refreshAll(this.#workloadsOfClaim.get(key));
  }

  volumeChanged(name: string, now: Volume | undefined, before: Volume | undefined): Names {
    put(this.#volumes, name, now);
    const keys = new Set([now?.claimKey ?? "", before?.claimKey ?? ""]);
    let touched: Names = new Set();
    for (const key of keys) {
      touched = touched.union(this.#refreshAll(this.#workloadsOfClaim.get(key)));
    }
    return touched;
  }

  podChanged(
    name: string,
    now: MountpointPod | undefined,
    before: MountpointPod | undefined,
  ): Names {
    put(this.#pods, name, now);
    if (now === undefined && before !== undefined) this.#rememberLineage(before);
    const touched = new Set(this.#listing.get(name));
    if (before !== undefined) {
      this.#podsOf.delete(before.attachment, name);
      touched.add(before.attachment);
    }
    if (now !== undefined) {
      this.#podsOf.add(now.attachment, name);
      touched.add(now.attachment);
    }
    return touched;
  }

  foreignPodChanged(name: string, isThere: boolean): Names {
    if (isThere) this.#foreign.add(name);
    else this.#foreign.delete(name);
    return new Set(this.#listing.get(name));
  }

  attachmentChanged(
    name: string,
    now: Attachment | undefined,
    before: Attachment | undefined,
  ): Names {
    put(this.#attachments, name, now);
    const [old, fresh] = [namesIn(before), namesIn(now)];
    for (const listed of old) this.#listing.delete(listed, name);
    for (const listed of fresh) this.#listing.add(listed, name);
    for (const uid of old.difference(fresh)) this.#rememberMount(uid, before);
    const workloads = old.union(fresh).intersection(this.#workloads);
    return this.#refreshAll(workloads).union(new Set([name]));
  }

  /** A node's heartbeats touch nobody; its coming and going touches all that is on it. */
  nodeChanged(name: string, now: NodeFacts | undefined, before: NodeFacts | undefined): Names {
    put(this.#nodes, name, now);
    if (now?.ready === before?.ready && now?.ending === before?.ending) return new Set();
    const there = this.#attachments.values().filter(({ spec }) => spec.nodeName === name);
    return new Set(there.map((attachment) => attachment.name));
  }

  #refreshAll(uids: Names): Names {
    let touched: Names = new Set();
    for (const uid of Array.from(uids)) touched = touched.union(this.#refresh(uid));
    return touched;
  }

  /** What a workload wants may change with each thing that is known of it, its claims, its PVs. */
  #refresh(uid: string): Names {
    const workload = this.#workloads.get(uid);
    const before = this.#wants.get(uid) ?? new Set();
    const now = workload === undefined ? new Map<string, SharingKey>() : this.#wantsOf(workload);
    for (const name of before) {
      this.#wantedBy.delete(name, uid);
      if (this.#wantedBy.get(name).size === 0) this.#keys.delete(name);
    }
    for (const [name, key] of now) {
      this.#wantedBy.add(name, uid);
      this.#keys.set(name, key);
    }
    put(this.#wants, uid, now.size === 0 ? undefined : new Set(now.keys()));
    return before.union(new Set(now.keys())).union(this.#listing.get(uid));
  }

  #wantsOf(workload: Workload): Map<string, SharingKey> {
    const wants = new Map<string, SharingKey>();
    if (workload.nodeName === "" || workload.ended) return wants;
    const claimed = workload.claims.map((claim) => this.#volumeOf(pathOf(workload, claim)));
    const volumes = claimed.filter((volume) => volume !== undefined);
    const mounted = claimed.filter((volume, i) => {
      return volume !== undefined && !workload.unmounted?.includes(workload.claims[i] ?? "");
    });
    for (const volume of volumes) {
      const listed = this.#listedFor(workload, volume);
      try {
        if (listed === undefined) refuseSameHandle(volume, mounted);
        const key = sharingKeyOf(workload, volume);
        wants.set(listed ?? attachmentNameOf(key, volume.uid), key);
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        if (listed === undefined && workload.started) continue; // its mount is not one of ours
        this.#onProblem(workload, volume, error);
      }
    }
    return wants;
  }

  /** A volume edited under a running workload does not move it: it stays where it is listed. */
  #listedFor(workload: Workload, volume: Volume): string | undefined {
    return Array.from(this.#listing.get(workload.uid)).find(
      (name) => this.#attachments.get(name)?.spec.persistentVolumeName === volume.name,
    );
  }

  /** Both sides must agree on the binding: a volume belongs to the claim that it names, by UID. */
  #volumeOf(claimKey: string): Volume | undefined {
    const claim = this.#claims.get(claimKey);
    if (claim === undefined) return undefined;
    const volume = this.#volumes.get(claim.volumeName);
    return volume?.claimKey === claimKey && volume.claimUid === claim.uid ? volume : undefined;
  }

  #rememberMount(uid: string, attachment: Attachment | undefined): void {
    const { spec } = attachment ?? {};
    const podName = spec === undefined ? undefined : mountpointPodOf(spec, uid);
    if (spec === undefined || podName === undefined || !this.#workloads.has(uid)) return;
    const mounts = this.#lastMounts.getOrInsertComputed(uid, () => new Map<string, LastMount>());
    const mountId = spec.mountIDs?.[podName] ?? podName;
    mounts.set(spec.persistentVolumeName, { mountId, podName });
  }

  #rememberLineage({ name, workloadUid, generation }: MountpointPod): void {
    this.#lineages.set(name, { workloadUid, generation });
    const [oldest] = this.#lineages.keys();
    if (this.#lineages.size > GONE_REMEMBERED_MAX) this.#lineages.delete(oldest ?? "");
  }

  #remember(uid: string): void {
    this.#gone.add(uid);
    const [oldest] = this.#gone;
    if (this.#gone.size > GONE_REMEMBERED_MAX && oldest !== undefined) this.#gone.delete(oldest);
  }
}

function put<V>(map: Map<string, V>, key: string, value: V | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}

/**
 * A kubelet takes two mounted volumes with one handle for one volume, mounts one of them, and waits
 * for the other for ever. A volume that no container mounts is none of its business.
 */
function refuseSameHandle(volume: Volume, mounted: readonly (Volume | undefined)[]): void {
  if (!mounted.includes(volume)) return;
  const { name, volumeId } = volume;
  const other = mounted.find((one) => one?.volumeId === volumeId && one.name !== name);
  if (other === undefined) return;
  throw new Failure(
    "invalid",
    `volumeHandle is ${JSON.stringify(volumeId)}, as that of volume ${other.name} in the same ` +
      "pod: give each PersistentVolume a volumeHandle of its own",
  );
}

function pathOf(workload: Workload, claim: string): string {
  return `${workload.namespace}/${claim}`;
}

/** Pods and workloads that an attachment names. A pod's name is never a UID. */
function namesIn(attachment: Attachment | undefined): Names {
  const names = new Set<string>();
  const listed = attachment?.spec.mountpointS3PodAttachments ?? {};
  for (const [pod, entries] of Object.entries(listed)) {
    names.add(pod);
    for (const entry of entries) names.add(entry.workloadPodUID);
  }
  return names;
}
