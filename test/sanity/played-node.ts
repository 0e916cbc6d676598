import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../../src/base/failure.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import type { S3Server } from "../../tools/stack/s3-server.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { RoleProcess } from "../health/role-process.ts";
import { MounterProcess } from "../node/mounter-process.ts";
import { podCgroup } from "../node/pod-cgroup.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { Bench, NODE, POD_SETTINGS, log } from "../reconciler/objects.ts";

const DRIVER = "s3.csi.scality.com";

/** A workload pod's volume, as the kubelet asks for it. */
export interface Wanted {
  readonly target: string;
  readonly volumeContext: Readonly<Record<string, string>>;
}

/**
 * A node of a real API server with a real reconciler, node service and S3 server. Scheduler and
 * kubelet are played: they bind Mountpoint Pods, run their container, and tell how it ended.
 */
export class PlayedNode implements AsyncDisposable {
  readonly endpoint: string;
  readonly kubeletPath: string;
  readonly bucket: TestBucket;
  readonly #bench: Bench;
  readonly #kubeconfig: string;
  readonly #owned: AsyncDisposableStack;
  readonly #containers = new Set<Promise<void>>();

  private constructor(
    kubeletPath: string,
    kubeconfig: string,
    bench: Bench,
    bucket: TestBucket,
    owned: AsyncDisposableStack,
  ) {
    this.kubeletPath = kubeletPath;
    this.endpoint = `unix://${join(kubeletPath, "plugins", DRIVER, "csi.sock")}`;
    this.#bench = bench;
    this.#kubeconfig = kubeconfig;
    this.bucket = bucket;
    this.#owned = owned;
  }

  static async start(startServer?: () => Promise<S3Server>): Promise<PlayedNode> {
    await using owned = new AsyncDisposableStack();
    const chart = owned.use(await installChart());
    const bucket = owned.use(await TestBucket.start(startServer));
    const dir = owned.use(await temporaryDirectory());
    const stop = new AbortController();
    const bench = new Bench(chart.admin, stop.signal);
    await bench.start();
    const reconciling = reconcile(chart, stop.signal);
    owned.defer(async () => {
      stop.abort();
      await reconciling;
    });
    const kubelet = join(dir.path, "kubelet");
    const node = new PlayedNode(kubelet, chart.kubeconfig, bench, bucket, owned.move());
    bench.mountpointPods.onChange((_key, now, before) => {
      const { name = "", uid = "" } = now?.metadata ?? {};
      if (now !== undefined && before === undefined) node.#run(name, uid);
    });
    return node;
  }

  /** The real one, once it serves; it ends with the node, if not before. */
  async startService(
    env: Readonly<Record<string, string>> = {},
    more: readonly string[] = [],
  ): Promise<RoleProcess> {
    const { endpoint, accessKeyId, secretAccessKey, region } = this.bucket.access;
    const flags = [`--kubelet-path=${this.kubeletPath}`, `--node-id=${NODE}`];
    const args = ["node", `--kubeconfig=${this.#kubeconfig}`, `--endpoint=${this.endpoint}`];
    const s3 = {
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    };
    const service = new RoleProcess([...args, ...flags, ...more], { env: { ...s3, ...env } });
    this.#owned.use(service);
    await service.logged("-reg.sock");
    return service;
  }

  /** A PV of this name with its claim. */
  async volume(name: string): Promise<void> {
    await this.#bench.volume(name, ["allow-delete"], { bucketName: this.bucket.name });
  }

  /** A pod on this node that wants the volume: from here on the kubelet asks for it. */
  async workload(name: string, volume: string): Promise<Wanted> {
    const uid = await this.#bench.workload(name, volume);
    const dir = join(this.kubeletPath, "pods", uid, "volumes/kubernetes.io~csi", volume);
    mkdirSync(dir, { recursive: true });
    const volumeContext = { bucketName: this.bucket.name, "csi.storage.k8s.io/pod.uid": uid };
    return { target: join(dir, "mount"), volumeContext };
  }

  async removeWorkload(name: string): Promise<void> {
    await this.#bench.removeWorkload(name);
  }

  /** All containers have ended in order, and the controller has cleared up behind them. */
  async settled(): Promise<void> {
    await Promise.all(this.#containers);
    await this.#bench.nothingIsLeft();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }

  #run(name: string, uid: string): void {
    const ended = this.#container(name, uid);
    this.#containers.add(ended);
    ended.catch((error: unknown) => log.error({ err: error }, "the played kubelet failed"));
  }

  async #container(name: string, uid: string): Promise<void> {
    await this.#bench.runMountpointPod(name);
    const podDir = join(this.kubeletPath, "pods", uid);
    const comm = join(podDir, "volumes/kubernetes.io~empty-dir/comm");
    mkdirSync(comm, { recursive: true });
    const cgroup = this.#owned.use(podCgroup(uid));
    const mounter = this.#owned.use(new MounterProcess(comm, { cgroup: cgroup.procs }));
    const status = await mounter.ended;
    if (status !== 0) throw new Error(`a mounter ended with ${status}: ${mounter.output}`);
    await this.#bench.endMountpointPod(name, "Succeeded").catch(unlessGone);
    rmSync(podDir, { recursive: true });
  }
}

function reconcile(chart: InstalledChart, signal: AbortSignal): Promise<void> {
  const client = new KubeClient(chart.accessOf("s3-csi-driver-controller-sa"));
  const options = { client, log, instance: "controller-0", mountpointPods: POD_SETTINGS };
  return startReconciler(options, signal).finally(() => client[Symbol.dispose]());
}

function unlessGone(error: unknown): void {
  if (!(error instanceof Failure) || error.kind !== "absent") throw error;
}
