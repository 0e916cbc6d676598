import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { KubeObject, Resource } from "../../src/kube/resource.ts";
import type { AttachmentStatus } from "../../src/volume/attachment.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { MOUNTPOINTS } from "./objects.ts";
import { startScene } from "./scene.ts";
import type { Scene } from "./scene.ts";

const TIMEOUT = { timeout: 60_000 };
const QUOTAS: Resource<KubeObject> = { prefix: "/api/v1", plural: "resourcequotas" };
const NO_PODS = { namespace: MOUNTPOINTS, name: "no-pods" };

let chart: InstalledChart;
let scene: Scene;
before(async () => {
  chart = await installChart();
  scene = await startScene(chart);
}, TIMEOUT);
after(async () => {
  await scene?.[Symbol.asyncDispose]();
  await chart[Symbol.asyncDispose]();
});

/** Waits for a status of the attachment whose words match. */
async function statusWith(attachment: string, words: RegExp): Promise<AttachmentStatus> {
  return scene.bench.attachments.until((list) => {
    const status = list.get(attachment)?.status;
    return status?.conditions?.some(({ message }) => words.test(message)) ? status : undefined;
  }, scene.signal);
}

test("an attachment says why its lost mount gets no successor", TIMEOUT, async () => {
  const { bench, signal } = scene;
  await bench.volume("pv-lost");
  const uid = await bench.workload("lost", "pv-lost");
  const { pod, attachment } = await bench.served(uid);
  await bench.runMountpointPod(pod);
  const hard = { pods: "0" };
  await chart.admin.create(QUOTAS, { metadata: NO_PODS, spec: { hard } } as KubeObject, signal);
  const status = { status: { hard, used: { pods: "0" } } };
  await chart.admin.patchStatus(QUOTAS, NO_PODS, status, signal);
  await bench.removeMountpointPod(pod);
  assert.match(await bench.told(uid, "FailedMountpointPod"), /exceeded quota: no-pods/);
  const { phase, conditions = [] } = await statusWith(attachment, /exceeded quota: no-pods/);
  assert.equal(phase, "Recovering");
  const ready = conditions.find(({ type }) => type === "Ready");
  assert.deepEqual([ready?.status, ready?.reason], ["False", "FailedMountpointPod"]);

  await chart.admin.delete(QUOTAS, NO_PODS, {}, signal);
  await bench.listed(attachment, (lists) => lists[pod] === undefined);
  await bench.removeWorkload("lost"); // no node has the successor: the controller deletes it
  await bench.nothingIsLeft();
});

test("a Mountpoint Pod that does not start is told after a while", TIMEOUT, async () => {
  const { bench } = scene;
  await bench.volume("pv-stuck");
  const uid = await bench.workload("stuck", "pv-stuck");
  const { pod, attachment } = await bench.served(uid);
  await bench.schedule(MOUNTPOINTS, pod);
  assert.match(
    await bench.told(uid, "MountpointPodNotStarted"),
    new RegExp(`${pod} has not started`),
  );
  assert.equal((await statusWith(attachment, /has not started .* for 15 s/)).phase, "Pending");
  await bench.endMountpointPod(pod, "Running");
  await bench.attachments.until(
    (list) => list.get(attachment)?.status?.phase === "Mounted" || undefined,
    scene.signal,
  );
  await bench.removeWorkload("stuck");
  await bench.removeMountpointPod(pod);
  await bench.nothingIsLeft();
});
