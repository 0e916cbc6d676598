import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PODS } from "../../src/kube/resource.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import { ANNOTATION, mountpointPodNameOf } from "../../src/volume/names.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { MOUNTPOINTS } from "./objects.ts";
import type { Bench } from "./objects.ts";
import { startScene } from "./scene.ts";

const TIMEOUT = { timeout: 60_000 };
const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let bench: Bench;
let signal: AbortSignal;

before(async () => {
  chart = owned.use(await installChart());
  ({ bench, signal } = owned.use(await startScene(chart)));
}, TIMEOUT);
after(() => owned.disposeAsync());

/** The status that a kubelet gives a pod whose mounter has ended beside a sidecar that goes on. */
async function endMounterAlone(name: string): Promise<void> {
  const container = { ready: false, restartCount: 0, image: "", imageID: "" };
  const containerStatuses = [
    { ...container, name: "injected", state: { running: {} } },
    { ...container, name: "mountpoint", state: { terminated: { exitCode: 0 } } },
  ];
  const patch = { status: { phase: "Running", containerStatuses } };
  await chart.admin.patchStatus(PODS, { namespace: MOUNTPOINTS, name }, patch, signal);
}

async function untilDeleted(name: string): Promise<void> {
  await bench.mountpointPods.until((list) => {
    const pod = list.get(`${MOUNTPOINTS}/${name}`);
    return pod === undefined || pod.metadata?.deletionTimestamp !== undefined || undefined;
  }, signal);
  await bench.removeMountpointPod(name); // what its kubelet does
}

test("reports of the node on Mountpoint Pods that are gone are removed", TIMEOUT, async () => {
  await bench.volume("pv-reports");
  const uid = await bench.workload("reported", "pv-reports");
  const { pod, attachment } = await bench.served(uid);
  await bench.runMountpointPod(pod);
  const report = { engineVersion: "1", restartsSurvived: 1, lastError: "killed" };
  const mountpointPods = { [pod]: report, "mp-gone": report, "mp-long-gone": report };
  await chart.admin.patchStatus(
    ATTACHMENTS,
    { name: attachment },
    { status: { mountpointPods } },
    signal,
  );
  const left = await bench.attachments.until((list) => {
    const reports = list.get(attachment)?.status?.mountpointPods ?? {};
    return Object.keys(reports).length === 1 ? reports : undefined;
  }, signal);
  assert.deepEqual(left, { [pod]: report });
  await bench.removeWorkload("reported");
  await bench.marked(pod);
  await bench.endMountpointPod(pod, "Succeeded");
  await bench.nothingIsLeft();
});

test("a Mountpoint Pod goes when its mounter has ended beside a sidecar", TIMEOUT, async () => {
  await bench.volume("pv-sidecar");
  const { pod } = await bench.served(await bench.workload("leaves", "pv-sidecar"));
  await bench.runMountpointPod(pod);
  await bench.removeWorkload("leaves");
  await bench.marked(pod);
  await endMounterAlone(pod);
  await untilDeleted(pod);
  await bench.nothingIsLeft();
});

test(
  "a mounter that ends beside a sidecar while it is needed has a successor",
  TIMEOUT,
  async () => {
    await bench.volume("pv-needed");
    const uid = await bench.workload("stays", "pv-needed");
    const { pod, attachment } = await bench.served(uid);
    await bench.runMountpointPod(pod);
    await endMounterAlone(pod);
    const next = mountpointPodNameOf(uid, "pv-needed", 1);
    await bench.listed(attachment, (lists) => lists[next]?.includes(uid) === true);
    const made = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: next }, signal);
    assert.equal(made.metadata?.annotations?.[ANNOTATION.mountId], pod);
    await untilDeleted(pod);
    await bench.removeWorkload("stays");
    await bench.nothingIsLeft();
  },
);
