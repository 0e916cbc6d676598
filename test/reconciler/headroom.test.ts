import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { unless } from "../../src/base/unless.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { NODES, PODS } from "../../src/kube/resource.ts";
import type { KubeObject, Pod, Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { headroomPodFor } from "../../src/reconciler/headroom.ts";
import { mountpointPodFor } from "../../src/reconciler/mountpoint-pod.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import { HEADROOM_GATE, LABEL } from "../../src/volume/names.ts";
import { programs } from "../../tools/programs.ts";
import { CHART, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import {
  Bench,
  MOUNTPOINTS,
  NODE,
  POD_SETTINGS,
  WORKLOADS,
  claimNameOf,
  log,
  untilDenied,
} from "./objects.ts";

const KEY = {
  persistentVolumeName: "pv",
  volumeID: "v",
  mountOptions: "",
  workloadFSGroup: "",
  authenticationSource: "driver",
  workloadNamespace: "",
  workloadServiceAccountName: "",
};
const VOLUME = {
  name: "pv",
  uid: "pv-uid",
  volumeId: "v",
  mountOptions: [],
  claimKey: "default/c",
  claimUid: "c",
};
const WORKLOAD = {
  namespace: WORKLOADS,
  name: "full",
  nodeName: "",
  ended: false,
  terminating: false,
  started: false,
  fsGroup: "",
  serviceAccountName: "",
  claims: [],
  createdMs: 0,
  gated: false,
  hadGate: true,
};
const LIMIT_RANGES: Resource<KubeObject & { spec: object }> = {
  prefix: "/api/v1",
  plural: "limitranges",
};
const TIMEOUT = { timeout: 120_000 };
const HEADROOM = { ...POD_SETTINGS, image: "pause", priorityClassName: "mount-s3-headroom" };
const owned = new AsyncDisposableStack();
const stop = new AbortController();
const { signal } = stop;

let chart: InstalledChart;
let bench: Bench;
let pods: WatchedList<Pod, Pod>;

before(async () => {
  chart = owned.use(await installChart());
  await chart.helm("upgrade", "s3csi", CHART, "--set", "headroom.enabled=true");
  owned.defer(() => stop.abort());
  bench = new Bench(chart.admin, signal);
  await bench.start();
  await makeRoom(1);
  pods = new WatchedList({ client: chart.admin, log, resource: PODS, project: (pod) => pod });
  pods.start(signal).catch((error: unknown) => log.error(error));
  owned.use(await startScheduler(chart.kubeconfig));
  const client = owned.use(new KubeClient(chart.accessOf("s3-csi-driver-controller-sa")));
  const settings = { mountpointPods: POD_SETTINGS, headroom: HEADROOM, instance: "c", log };
  const reconciling = startReconciler({ client, ...settings }, signal);
  owned.defer(async () => {
    stop.abort();
    await reconciling;
  });
}, TIMEOUT);
after(() => owned.disposeAsync());

async function startScheduler(kubeconfig: string): Promise<AsyncDisposable> {
  const program = join(await programs("kubernetes"), "kube-scheduler");
  const flags = [`--kubeconfig=${kubeconfig}`, "--leader-elect=false", "--secure-port=0"];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", program, ...flags], {
    stdio: "ignore",
  });
  return {
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** A node of so many CPUs, as its kubelet would report it. */
async function makeRoom(cpus: number): Promise<void> {
  const labels = { "kubernetes.io/hostname": NODE };
  await chart.admin.patch(NODES, { name: NODE }, { metadata: { labels } }, signal);
  const allocatable = { cpu: String(cpus), memory: "8Gi", pods: "110" };
  const now = new Date().toISOString();
  const heartbeat = { lastHeartbeatTime: now, lastTransitionTime: now };
  const ready = { type: "Ready", status: "True", reason: "Test", message: "", ...heartbeat };
  const status = { capacity: allocatable, allocatable, conditions: [ready] };
  await chart.admin.patchStatus(NODES, { name: NODE }, { status }, signal);
}

function podOf(name: string, cpu: string, extra: Partial<NonNullable<Pod["spec"]>> = {}): Pod {
  const resources = { requests: { cpu } };
  return {
    metadata: { name, namespace: WORKLOADS },
    spec: {
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "app", image: "app", resources }],
      ...extra,
    },
  };
}

/** The pod, once it is as asked. */
function until(key: string, isIt: (pod: Pod) => boolean): Promise<Pod> {
  return pods.until((list) => {
    const pod = list.get(key);
    return pod !== undefined && isIt(pod) ? pod : undefined;
  }, signal);
}

const scheduled = (key: string) => until(key, ({ spec }) => spec?.nodeName === NODE);
const gone = (key: string) =>
  pods.until((list) => (list.get(key) === undefined ? true : undefined), signal);

/** A workload that waits for headroom of its volume. */
async function gated(
  name: string,
  cpu: string,
  attributes: Record<string, string>,
): Promise<string> {
  await bench.volume(`pv-${name}`, [], { bucketName: "bucket", ...attributes });
  const claimName = claimNameOf(`pv-${name}`);
  const volumes = [{ name: "s3", persistentVolumeClaim: { claimName } }];
  const schedulingGates = [{ name: HEADROOM_GATE }];
  const pod = podOf(name, cpu, { schedulingGates, volumes });
  return (await chart.admin.create(PODS, pod, signal)).metadata?.uid ?? "";
}

/** The workload's Mountpoint Pod, once it runs as its kubelet would report it. */
async function run(uid: string): Promise<string> {
  const { pod } = await bench.served(uid);
  await scheduled(`${MOUNTPOINTS}/${pod}`);
  await bench.endMountpointPod(pod, "Running");
  return pod;
}

/** The workload goes, and with it its Mountpoint Pod, as the kubelet would report it. */
async function leave(name: string, mountpointPod: string): Promise<void> {
  await bench.removeWorkload(name);
  await bench.marked(mountpointPod);
  await bench.endMountpointPod(mountpointPod, "Succeeded");
  await bench.nothingIsLeft();
}

test(
  "a gated workload is scheduled with headroom, which goes when it is served",
  TIMEOUT,
  async () => {
    const attributes = { mountpointContainerResourcesRequestsCpu: "300m" };
    const uid = await gated("gated", "300m", attributes);
    const workload = await scheduled(`${WORKLOADS}/gated`);
    assert.equal(workload.metadata?.labels?.[LABEL.headroomForWorkload], uid);
    const { pod } = await bench.served(uid);
    const mountpoint = await scheduled(`${MOUNTPOINTS}/${pod}`);
    assert.equal(mountpoint.spec?.priorityClassName, "mount-s3-preempting");
    const headroom = await pods.until((list) => {
      return list.values().find((one) => one.metadata?.labels?.[LABEL.headroomForPod] === uid);
    }, signal);
    const name = headroom.metadata?.name ?? "";
    await scheduled(`${MOUNTPOINTS}/${name}`);

    await bench.endMountpointPod(pod, "Running");
    await gone(`${MOUNTPOINTS}/${name}`);
    await leave("gated", pod);
  },
);

test("a claim that Kubernetes binds late gets headroom all the same", TIMEOUT, async () => {
  await bench.volume("pv-late", [], { bucketName: "bucket" }, "late-handle", { claimFirst: true });
  const volumes = [{ name: "s3", persistentVolumeClaim: { claimName: claimNameOf("pv-late") } }];
  const pod = podOf("late", "10m", { schedulingGates: [{ name: HEADROOM_GATE }], volumes });
  const uid = (await chart.admin.create(PODS, pod, signal)).metadata?.uid ?? "";
  const ungated = await until(`${WORKLOADS}/late`, ({ spec }) => {
    return (spec?.schedulingGates ?? []).length === 0;
  });
  assert.equal(ungated.metadata?.labels?.[LABEL.headroomForWorkload], uid);
  const isHeadroom = (one: Pod) => one.metadata?.labels?.[LABEL.headroomForPod] === uid;
  assert(pods.values().some(isHeadroom), "headroom is there before the gate is lifted");
  const mountpointPod = await run(uid);
  await pods.until((list) => !list.values().some(isHeadroom) || undefined, signal);
  await leave("late", mountpointPod);
});

test("a volume that can't be served keeps nobody behind the gate", TIMEOUT, async () => {
  const uid = await gated("wrong", "10m", { mountpointContainerResourcesLimitsMemory: "1GB" });
  await scheduled(`${WORKLOADS}/wrong`);
  assert.match(await bench.told(uid, "InvalidVolume"), /ResourcesLimitsMemory.*1GB/);
  await bench.removeWorkload("wrong");
});

test("who waits for headroom that is refused is told why", TIMEOUT, async () => {
  const max = { cpu: "100m" };
  const limit = { metadata: { name: "small", namespace: MOUNTPOINTS } };
  const spec = { limits: [{ type: "Container", max }] };
  await chart.admin.create(LIMIT_RANGES, { ...limit, spec }, signal);
  const attributes = { mountpointContainerResourcesLimitsCpu: "300m" };
  const facts = { ...WORKLOAD, uid: "another" };
  const another = headroomPodFor(facts, { ...VOLUME, attributes }, HEADROOM);
  const anotherPlace = { namespace: MOUNTPOINTS, name: another.metadata?.name ?? "" };
  await untilDenied(signal, async () => {
    await chart.admin.create(PODS, another, signal);
    const deleted = chart.admin.delete(PODS, anotherPlace, { gracePeriodSeconds: 0 }, signal);
    await unless("absent", deleted); // its workload is none: the controller may be the first
  });
  const uid = await gated("refused", "10m", attributes);
  assert.match(await bench.told(uid, "FailedHeadroom"), /maximum cpu usage per Container is 100m/);
  const place = { namespace: MOUNTPOINTS, name: "small" };
  await chart.admin.delete(LIMIT_RANGES, place, {}, signal);
  await scheduled(`${WORKLOADS}/refused`);
  await leave("refused", await run(uid));
});

test("on a full node the Mountpoint Pod takes the place of its headroom", TIMEOUT, async () => {
  const workload = await chart.admin.create(PODS, podOf("full", "300m"), signal);
  const uid = workload.metadata?.uid ?? "";
  const labels = { [LABEL.headroomForWorkload]: uid };
  const place = { namespace: WORKLOADS, name: "full" };
  await chart.admin.patch(PODS, place, { metadata: { labels } }, signal);
  await scheduled(`${WORKLOADS}/full`);
  const attributes = { bucketName: "bucket", mountpointContainerResourcesRequestsCpu: "400m" };
  const volume = { ...VOLUME, attributes };
  const facts = { ...WORKLOAD, uid };
  const headroom = await chart.admin.create(PODS, headroomPodFor(facts, volume, HEADROOM), signal);
  const headroomKey = `${MOUNTPOINTS}/${headroom.metadata?.name}`;
  await scheduled(headroomKey);
  await chart.admin.create(PODS, podOf("neighbour", "300m"), signal);
  await scheduled(`${WORKLOADS}/neighbour`);

  const newPod = { workloadUid: uid, generation: 0, preempting: true };
  const origin = { attachment: "s3pa-full", key: { ...KEY, nodeName: NODE }, attributes };
  const names = { name: "mp-full", mountId: "mp-full" };
  const mountpoint = mountpointPodFor({ ...newPod, ...names }, origin, POD_SETTINGS);
  await chart.admin.create(PODS, mountpoint, signal);
  await scheduled(`${MOUNTPOINTS}/mp-full`);
  await gone(headroomKey);
  const neighbour = pods.get(`${WORKLOADS}/neighbour`);
  assert(neighbour !== undefined, "nobody else was thrown out");
  assert.equal(neighbour.metadata?.deletionTimestamp, undefined);
});
