import { setTimeout as delay } from "node:timers/promises";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import { PODS, PVCS, PVS } from "../../../src/kube/resource.ts";
import type { Pod } from "../../../src/kube/resource.ts";
import { mountpointPodOf } from "../../../src/volume/attachment.ts";
import { BUSYBOX_IMAGE } from "../../stack/busybox-image.ts";
import { startCluster } from "../../stack/cluster.ts";
import type { Cluster } from "../../stack/cluster.ts";
import type { NodeSetup } from "../../stack/cluster-config.ts";
import { ClusterWatch, MOUNTPOINT_NAMESPACE, hasEnded } from "../../stack/cluster-watch.ts";
import { installDriver, staticVolume } from "../../stack/driver.ts";
import { clientOf } from "../../stack/s3-client.ts";
import { ContainerTimes } from "./container-times.ts";

const BUCKET = "publish";
/**
 * A kubelet with its default limits may ask the API server 100 times at once and 50 times a second:
 * it has all of them again two seconds after it had its last say. Nobody tells when.
 */
const QUIET_MS = 3_000;
/**
 * The kubelet removes what is left of ended containers once a minute, a second of work after a
 * burst. Who begins so long after it is through before the next time.
 */
const COLLECTED_WITHIN_MS = 40_000;
const LOOK_EVERY_MS = 1_000;

/** What became of a workload and its Mountpoint Pod, from the request to delete the workload on. */
export interface Departure {
  /** The workload's containers have ended, as the API server knows it. */
  readonly endedMs: number;
  readonly goneMs: number;
  /** The container that served it has ended: unmounted, and everything is in S3. */
  readonly mounterEndedMs: number;
  readonly mountpointGoneMs: number;
}

/** A cluster with the driver, and one who looks on. */
export class Stage implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly watch: ClusterWatch;
  readonly containers = new ContainerTimes();
  readonly #owned: AsyncDisposableStack;
  readonly #runtime: AsyncDisposable;
  /** When all that had ended was last seen removed; before the first time, long ago. */
  #collectedMs = 0;

  private constructor(cluster: Cluster, watch: ClusterWatch, owned: AsyncDisposableStack) {
    this.cluster = cluster;
    this.watch = watch;
    this.#owned = owned;
    this.#runtime = owned.use(cluster.containerEvents((line) => this.containers.take(line)));
  }

  static async start(setup: NodeSetup): Promise<Stage> {
    await using owned = new AsyncDisposableStack();
    const cluster = owned.use(await startCluster(setup));
    await installDriver(cluster);
    await clientOf(cluster.s3).send(new CreateBucketCommand({ Bucket: BUCKET }));
    const watch = owned.use(await ClusterWatch.start(cluster));
    return new Stage(cluster, watch, owned.move());
  }

  /** A volume of its own name, ready to be claimed by pods. */
  async volume(name: string): Promise<void> {
    const [volume = {}, claim = {}] = staticVolume(name, BUCKET);
    await this.watch.create(PVS, volume);
    await this.watch.create(PVCS, claim);
    await this.watch.untilBound(name);
  }

  /** Claims that nobody uses any more, and their volumes: controllers go through all there are. */
  async removeVolumes(...names: readonly string[]): Promise<void> {
    await Promise.all(names.map((name) => this.watch.deleteVolume(name)));
    const isGone = (name: string) => this.watch.claims.get(`default/${name}`) === undefined;
    await this.watch.until(this.watch.claims, "no claim is left", () => names.every(isGone));
  }

  /** No container times from here on: who follows the runtime takes part in a burst's work. */
  async endContainerTimes(): Promise<void> {
    await this.#runtime[Symbol.asyncDispose]();
  }

  /** Until the node is as it was before all those pods came and went. */
  async quiet(): Promise<void> {
    await delay(QUIET_MS);
    if (Date.now() - this.#collectedMs < COLLECTED_WITHIN_MS) return;
    if ((await this.cluster.deadContainers()) === 0) return; // nothing to be removed meanwhile
    do await delay(LOOK_EVERY_MS);
    while ((await this.cluster.deadContainers()) > 0);
    this.#collectedMs = Date.now();
  }

  /** Creates pods at once; how long until the last of them is Ready. */
  async untilAllReady(pods: readonly Workload[]): Promise<number> {
    const startedMs = Date.now();
    await Promise.all(pods.map((pod) => this.watch.create(PODS, podOf(pod))));
    await Promise.all(pods.map(({ name }) => this.watch.untilReady(name)));
    return Date.now() - startedMs;
  }

  /** The Mountpoint Pod that serves a workload. */
  mountpointPodOf(workload: string): Pod {
    const uid = this.watch.pod(workload)?.metadata?.uid ?? "";
    for (const { spec } of this.watch.attachments.values()) {
      const pod = this.watch.pod(mountpointPodOf(spec, uid) ?? "", MOUNTPOINT_NAMESPACE);
      if (pod !== undefined) return pod;
    }
    throw new Error(`${workload} is attached to no Mountpoint Pod`);
  }

  async remove(...workloads: readonly string[]): Promise<void> {
    await Promise.all(workloads.map((name) => this.watch.deletePod(name)));
    await Promise.all(workloads.map((name) => this.watch.untilGone(name)));
  }

  /** Removes the last workload of a Mountpoint Pod. */
  async removeLast(workload: string): Promise<Departure> {
    const { watch } = this;
    const mountpoint = this.mountpointPodOf(workload);
    const name = mountpoint.metadata?.name ?? "";
    const at = async (what: string, isSo: () => boolean) => {
      await watch.until(watch.pods, what, isSo);
      return Date.now();
    };
    const isOver = () => watch.pod(workload) === undefined || hasEnded(watch.pod(workload));
    const isGone = () => watch.pod(name, MOUNTPOINT_NAMESPACE) === undefined;
    const seen = Promise.all([
      at(`${workload} has ended`, isOver),
      at(`${workload} is gone`, () => watch.pod(workload) === undefined),
      at(`${name} is gone`, isGone),
    ]);
    await watch.deletePod(workload);
    const [endedMs, goneMs, mountpointGoneMs] = await seen;
    const mounterEndedMs = this.containers.endedMs(containerOf(mountpoint));
    return { endedMs, goneMs, mounterEndedMs, mountpointGoneMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}

/** The only container of a pod, as the runtime names it. */
export function containerOf({ status, metadata }: Pod): string {
  const [first] = status?.containerStatuses ?? [];
  const id = first?.containerID?.replace(/^.*:\/\//, "");
  if (id === undefined) throw new Error(`${metadata?.name} has no container yet`);
  return id;
}

export interface Workload {
  readonly name: string;
  /** Without one it is the floor: what a pod takes that has nothing to do with us. */
  readonly claim?: string;
}

/** It ends when it is told to: a grace period would be all that a departure shows. */
function podOf({ name, claim }: Workload): object {
  const container = {
    name: "shell",
    image: BUSYBOX_IMAGE,
    imagePullPolicy: "Never",
    command: ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"],
  };
  const metadata = { name, namespace: "default" };
  if (claim === undefined) {
    return { apiVersion: "v1", kind: "Pod", metadata, spec: { containers: [container] } };
  }
  const volumeMounts = [{ name: "data", mountPath: "/data" }];
  const volumes = [{ name: "data", persistentVolumeClaim: { claimName: claim } }];
  const spec = { containers: [{ ...container, volumeMounts }], volumes };
  return { apiVersion: "v1", kind: "Pod", metadata, spec };
}
