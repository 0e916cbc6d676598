import assert from "node:assert/strict";
import { attachmentNameOf } from "../volume/attachment.ts";
import { volumeOf, workloadOf } from "./facts.ts";
import type { MountpointPod, Volume, Workload } from "./facts.ts";
import { NamespaceLimit } from "./namespace-limit.ts";
import { sharingKeyOf } from "./sharing-key.ts";
import { World } from "./world.ts";

interface Arrival {
  readonly name: string;
  readonly namespace: string;
  readonly second: number;
  readonly nodeName?: string;
}

/** A world with a limit, and who was to be looked at since the last question. */
export class Scene {
  readonly world = new World(() => {});
  readonly limit: NamespaceLimit;
  readonly #woken = new Set<string>();

  constructor(limit: number) {
    const enqueue = (name: string) => void this.#woken.add(name);
    this.limit = new NamespaceLimit({ world: this.world, limit, engine: "s3csi", enqueue });
  }

  /** A workload on a volume of its own; the later it comes, the later it was created. */
  arrive(name: string, namespace: string, second: number): string {
    const [attachment] = this.arriveWith([name], { name, namespace, second });
    assert(attachment !== undefined);
    return attachment;
  }

  arriveWith(names: readonly string[], { name, namespace, second, nodeName = "n" }: Arrival) {
    const volumes = names.map((claimName) => {
      const claim = { namespace, name: claimName, uid: `c-${claimName}`, volumeName: claimName };
      this.limit.changed(this.world.claimChanged(`${namespace}/${claimName}`, claim));
      const volume = volumeFor(claimName, namespace);
      this.limit.changed(this.world.volumeChanged(claimName, volume, undefined));
      return volume;
    });
    const workload = workloadOf({
      metadata: {
        name,
        namespace,
        uid: `w-${name}`,
        creationTimestamp: `2026-01-01T00:00:0${second}Z`,
      },
      spec: {
        nodeName,
        containers: [],
        volumes: names.map((claimName) => {
          return { name: claimName, persistentVolumeClaim: { claimName } };
        }),
      },
    });
    assert(workload !== undefined);
    this.limit.changed(this.world.workloadChanged(workload, undefined));
    return volumes.map((one) => attachmentNameOf(sharingKeyOf(workload, one), one.uid));
  }

  podOf(attachment: string, change: Partial<MountpointPod> = {}): MountpointPod {
    const name = change.name ?? `mp-${attachment}`;
    const flags = { scheduled: true, started: true, finished: false, terminating: false };
    const none = { backingOff: false, shutDown: false, needsUnmount: false, noNewWorkload: false };
    const texts = { cannotStart: "", settingsHash: "", unschedulable: "", driverVersion: "" };
    const rest = { uid: name, createdMs: 0, generation: 0, workloadUid: "w", mountId: name };
    return { ...flags, ...none, ...texts, ...rest, name, attachment, ...change };
  }

  put(pod: MountpointPod, before?: MountpointPod): void {
    this.limit.changed(this.world.podChanged(pod.name, pod, before));
  }

  remove(pod: MountpointPod): void {
    this.limit.changed(this.world.podChanged(pod.name, undefined, pod));
  }

  /** The attachments that may have a new Mountpoint Pod for somebody who waits. */
  open(...names: readonly string[]): string[] {
    return names.filter((name) => {
      const place = this.limit.placeOf(name);
      return place?.mayCreate === true && place.admitted.size > 0;
    });
  }

  taken(name: string): number | undefined {
    return this.limit.placeOf(name)?.taken;
  }

  /** The attachment as the controller writes it: with this pod, which serves these workloads. */
  list(attachment: string, pod: MountpointPod, ...names: readonly string[]): void {
    const key = this.world.keyOf(attachment);
    assert(key !== undefined);
    const entries = names.map((name) => ({ workloadPodUID: `w-${name}`, attachmentTime: "" }));
    const spec = { ...key, mountpointS3PodAttachments: { [pod.name]: entries } };
    const now = { name: attachment, uid: attachment, resourceVersion: "1", spec };
    const before = this.world.attachment(attachment);
    this.limit.changed(this.world.attachmentChanged(attachment, now, before));
  }

  unlist(attachment: string): void {
    const before = this.world.attachment(attachment);
    this.limit.changed(this.world.attachmentChanged(attachment, undefined, before));
  }

  /** A write is under way that lists these workloads for the attachment's Mountpoint Pod. */
  begin(attachment: string, ...names: readonly string[]): void {
    const mounts = new Set([`mp-${attachment}`]);
    this.limit.grant(attachment, { mounts, uids: new Set(names.map((name) => `w-${name}`)) });
  }

  /** A Mountpoint Pod for these workloads, from the decision to what the watches tell of it. */
  serve(attachment: string, ...names: readonly string[]): MountpointPod {
    assert.deepEqual(this.open(attachment), [attachment], "there is a place");
    this.begin(attachment, ...names);
    const pod = this.podOf(attachment);
    this.put(pod);
    this.list(attachment, pod, ...names);
    this.limit.settle(attachment);
    return pod;
  }

  /** The workload has ended, and its Mountpoint Pod with it. */
  end(name: string, attachment: string, pod: MountpointPod): void {
    this.change(name, { ended: true });
    this.unlist(attachment);
    this.remove(pod);
  }

  change(name: string, change: Partial<Workload>): void {
    const before = this.world.workload(`w-${name}`);
    assert(before !== undefined);
    this.limit.changed(this.world.workloadChanged({ ...before, ...change }, before));
  }

  admitted(attachment: string): string[] {
    return Array.from(this.limit.placeOf(attachment)?.admitted ?? []).toSorted();
  }

  takeWoken(): string[] {
    const woken = Array.from(this.#woken);
    this.#woken.clear();
    return woken;
  }
}

function volumeFor(name: string, namespace: string): Volume {
  const volume = volumeOf({
    metadata: { name, uid: `pv-${name}` },
    spec: {
      claimRef: { namespace, name, uid: `c-${name}` },
      csi: {
        driver: "s3.csi.scality.com",
        volumeHandle: name,
        volumeAttributes: { bucketName: "bucket" },
      },
    },
  });
  assert(volume !== undefined);
  return volume;
}
