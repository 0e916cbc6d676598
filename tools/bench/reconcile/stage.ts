import { Failure } from "../../../src/base/failure.ts";
import { createLog } from "../../../src/base/pino-log.ts";
import { loadKubeAccess } from "../../../src/kube/kube-access.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import { NODES, PODS, PVCS, PVS } from "../../../src/kube/resource.ts";
import type { KubeObject, Pod, Resource } from "../../../src/kube/resource.ts";
import { WatchedList } from "../../../src/kube/watched-list.ts";
import { ATTACHMENTS } from "../../../src/volume/attachment.ts";
import {
  ANNOTATION,
  DRIVER_NAME,
  MOUNTPOINT_NAMESPACE_DEFAULT,
} from "../../../src/volume/names.ts";
import { startApiServer } from "../../stack/api-server.ts";
import type { ControlPlane } from "../../stack/api-server.ts";
import { useOf } from "../engine/process-tree.ts";
import type { Pretended } from "./controller-process.ts";
import { install, kubectl } from "./install.ts";

export const MOUNTPOINTS = MOUNTPOINT_NAMESPACE_DEFAULT;
const WORKLOADS = "default";
const AT_ONCE = 16;
const SERVICE_ACCOUNTS: Resource<KubeObject> = { prefix: "/api/v1", plural: "serviceaccounts" };
const log = createLog("error", { role: "bench" });

/** A big cluster as the controller sees it: a real API server, and nobody behind it but us. */
export class Stage implements AsyncDisposable {
  readonly controllerAccess: Pretended;
  readonly client: KubeClient;
  /** Writes of whole pods that are not the controller's. */
  podWrites = 0;
  readonly attachments;
  readonly mountpointPods;
  readonly #stop = new AbortController();
  readonly #owned: AsyncDisposableStack;
  readonly #arrived = new Map<string, number>();
  readonly #waiting = new Map<string, () => void>();
  readonly #plane: ControlPlane;

  private constructor(
    plane: ControlPlane,
    account: string,
    client: KubeClient,
    owned: AsyncDisposableStack,
  ) {
    this.#plane = plane;
    this.controllerAccess = { server: new URL(plane.url), account };
    this.client = client;
    this.#owned = owned;
    this.attachments = new WatchedList({
      client,
      log,
      resource: ATTACHMENTS,
      project: ({ spec }) => spec.mountpointS3PodAttachments,
    });
    this.attachments.onChange((_key, now) => {
      for (const entries of Object.values(now ?? {})) {
        for (const entry of entries) this.#noteArrival(entry.workloadPodUID);
      }
    });
    const selection = { namespace: MOUNTPOINTS };
    const options = { client, log, resource: PODS, selection };
    this.mountpointPods = new WatchedList({ ...options, project: playedOf });
  }

  static async open(): Promise<Stage> {
    await using owned = new AsyncDisposableStack();
    const plane = owned.use(await startApiServer());
    const client = owned.use(new KubeClient(await loadKubeAccess(plane.kubeconfig)));
    const account = await install(plane.kubeconfig);
    const stage = new Stage(plane, account, client, owned.move());
    const lists = [stage.attachments, stage.mountpointPods];
    for (const list of lists) void list.start(stage.signal);
    await Promise.all(lists.map((list) => list.synced));
    stage.#playNodes();
    await stage.#accounts();
    return stage;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  async metrics(): Promise<string> {
    return kubectl(this.#plane.kubeconfig, ["get", "--raw", "/metrics"]);
  }

  /** The API server's, without etcd. */
  async cpuSeconds(): Promise<number> {
    return (await useOf(this.#plane.services.apiServer.pid)).cpuSeconds;
  }

  async nodes(count: number): Promise<void> {
    await inTurns(count, (i) =>
      this.client.create(NODES, { metadata: { name: nodeName(i) }, spec: {} }, this.signal),
    );
  }

  /** Static volumes that name their claims: the controller manager would need minutes to bind. */
  async volumes(count: number): Promise<void> {
    await inTurns(count, async (i) => {
      const claim = await this.client.create(PVCS, claimOf(`pv-${i}`), this.signal);
      const volume = volumeOf(`pv-${i}`, claim.metadata?.uid ?? "");
      await this.client.create(PVS, volume, this.signal);
    });
  }

  /** As the scheduler leaves it; gives the moment when the API server had it. */
  async workload(name: string, volume: number, node: number): Promise<Arrival> {
    const { metadata } = await this.client.create(
      PODS,
      workloadPod(name, `pv-${volume}`, nodeName(node)),
      this.signal,
    );
    this.podWrites += 1;
    return { uid: metadata?.uid ?? "", createdMs: performance.now() };
  }

  async removeWorkload(name: string): Promise<void> {
    const place = { namespace: WORKLOADS, name };
    await this.client.delete(PODS, place, { gracePeriodSeconds: 0 }, this.signal);
    this.podWrites += 1;
  }

  /** When the workload's attachment was seen. */
  async attached(uid: string): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (!this.#arrived.has(uid)) {
      this.#waiting.set(uid, resolve);
      await promise;
    }
    return this.#arrived.get(uid) ?? NaN;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#owned.disposeAsync();
  }

  #noteArrival(uid: string): void {
    if (this.#arrived.has(uid)) return;
    this.#arrived.set(uid, performance.now());
    this.#waiting.get(uid)?.();
    this.#waiting.delete(uid);
  }

  async #accounts(): Promise<void> {
    const accounts = new WatchedList({
      client: this.client,
      log,
      resource: SERVICE_ACCOUNTS,
      project: (account) => account,
    });
    void accounts.start(this.signal);
    for (const namespace of [WORKLOADS, MOUNTPOINTS]) {
      await accounts.until((list) => list.get(`${namespace}/default`), this.signal);
    }
  }

  /** Scheduler, kubelet and node service for Mountpoint Pods. */
  #playNodes(): void {
    this.mountpointPods.onChange((_key, pod) => {
      if (pod === undefined) return;
      this.#act(pod).catch((error: unknown) => {
        if (!(error instanceof Failure)) throw error; // else: changed meanwhile, and we hear of it
      });
    });
  }

  async #act(pod: PlayedPod): Promise<void> {
    const place = { namespace: MOUNTPOINTS, name: pod.name };
    if (pod.terminating) return;
    if (pod.nodeName === undefined) await this.#bind(place, pod.wantedNode);
    else if (pod.phase === "Pending") await this.#phase(place, "Running");
    else if (pod.phase === "Running" && pod.marked) await this.#phase(place, "Succeeded");
  }

  async #bind(place: { namespace: string; name: string }, name: string): Promise<void> {
    const bindings: Resource<KubeObject & { target: object }> = {
      prefix: "/api/v1",
      plural: `pods/${place.name}/binding`,
    };
    const binding = { metadata: place, target: { kind: "Node", name } };
    await this.client.create(bindings, binding, this.signal);
  }

  async #phase(place: { namespace: string; name: string }, phase: string): Promise<void> {
    await this.client.patchStatus(PODS, place, { status: { phase } }, this.signal);
  }
}

/** Of a Mountpoint Pod what its players look at: thousands of whole ones would slow us down. */
interface PlayedPod {
  readonly name: string;
  readonly wantedNode: string;
  readonly nodeName: string | undefined;
  readonly phase: string | undefined;
  readonly marked: boolean;
  readonly terminating: boolean;
}

function playedOf({ metadata, spec, status }: Pod): PlayedPod {
  const terms =
    spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return {
    name: metadata?.name ?? "",
    wantedNode: terms?.[0]?.matchFields?.[0]?.values?.[0] ?? "",
    nodeName: spec?.nodeName,
    phase: status?.phase,
    marked: metadata?.annotations?.[ANNOTATION.needsUnmount] === "true",
    terminating: metadata?.deletionTimestamp !== undefined,
  };
}

export interface Arrival {
  readonly uid: string;
  readonly createdMs: number;
}

/** So many at once that the server is busy, and no more. */
export async function inTurns(count: number, work: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const i = next;
      next += 1;
      await work(i);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

function nodeName(i: number): string {
  return `node-${i}`;
}

function volumeOf(name: string, uid: string) {
  return {
    metadata: { name },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteMany"],
      storageClassName: "",
      claimRef: { namespace: WORKLOADS, name, uid },
      csi: {
        driver: DRIVER_NAME,
        volumeHandle: name,
        volumeAttributes: { bucketName: "bucket" },
      },
    },
  };
}

function claimOf(name: string) {
  return {
    metadata: { name, namespace: WORKLOADS },
    spec: {
      accessModes: ["ReadWriteMany"],
      storageClassName: "",
      volumeName: name,
      resources: { requests: { storage: "1Gi" } },
    },
  };
}

function workloadPod(name: string, claimName: string, node: string): Pod {
  return {
    metadata: { name, namespace: WORKLOADS },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "app", image: "app" }],
      volumes: [{ name: "s3", persistentVolumeClaim: { claimName } }],
    },
  };
}
