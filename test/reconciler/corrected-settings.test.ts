import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PODS } from "../../src/kube/resource.ts";
import { ANNOTATION, mountpointPodNameOf } from "../../src/volume/names.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { startController } from "./controller-life.ts";
import { Bench, MOUNTPOINTS, NODE, POD_SETTINGS } from "./objects.ts";

const TIMEOUT = { timeout: 60_000 };
const WRONG = { ...POD_SETTINGS, image: "s3csi:mistyped" };

const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let bench: Bench;

before(async () => {
  chart = await installChart();
  bench = new Bench(chart.admin, signal);
  await bench.start();
}, TIMEOUT);
after(async () => {
  stop.abort();
  await chart[Symbol.asyncDispose]();
});

/** The status that a kubelet gives a container that it can't start. */
async function hinder(name: string, reason: string, message: string): Promise<void> {
  const container = { name: "mountpoint", ready: false, restartCount: 0, image: "", imageID: "" };
  const containerStatuses = [{ ...container, state: { waiting: { reason, message } } }];
  const place = { namespace: MOUNTPOINTS, name };
  const patch = { status: { phase: "Pending", containerStatuses } };
  await chart.admin.patchStatus(PODS, place, patch, signal);
}

test("a Mountpoint Pod whose volumes cannot be set up gets them too", TIMEOUT, async () => {
  await bench.volume("pv-creating");
  const wrong = startController(chart, signal, {
    mountpointPods: { ...POD_SETTINGS, caConfigMap: "mistyped" },
  });
  const uid = await bench.workload("creating", "pv-creating");
  const { pod, attachment } = await bench.served(uid);
  await bench.schedule(MOUNTPOINTS, pod);
  await hinder(pod, "ContainerCreating", "");
  await wrong[Symbol.asyncDispose]();

  await using _right = startController(chart, signal, { mountpointPods: POD_SETTINGS });
  const next = mountpointPodNameOf(uid, "pv-creating", 1);
  await bench.listed(attachment, (lists) => lists[next]?.includes(uid) === true);
  const place = { namespace: MOUNTPOINTS, name: next };
  const { spec } = await chart.admin.get(PODS, place, signal);
  assert.doesNotMatch(JSON.stringify(spec?.volumes), /mistyped/);
  await bench.removeMountpointPod(pod); // the kubelet's work
  await bench.removeWorkload("creating");
  await bench.nothingIsLeft();
});

// prettier-ignore
const cases: [reason: string, words: RegExp][] = [
  ["ErrImageNeverPull",          /image s3csi:mistyped is not on the node, pull policy Never/],
  ["ErrImagePull",               /image s3csi:mistyped cannot be pulled/],
  ["ImagePullBackOff",           /image s3csi:mistyped cannot be pulled/],
  ["InvalidImageName",           /"s3csi:mistyped" is not the name of an image/],
  ["CreateContainerError",       /its container cannot be created/],
  ["CreateContainerConfigError", /its container cannot be created: the kubelet's words/],
];
for (const [i, [reason, words]] of cases.entries()) {
  test(`a Mountpoint Pod with ${reason} gets the corrected settings`, TIMEOUT, async () => {
    const [volume, name] = [`pv-${i}`, `waits-${i}`];
    await bench.volume(volume);
    const wrong = startController(chart, signal, { mountpointPods: WRONG });
    const uid = await bench.workload(name, volume);
    const { pod, attachment } = await bench.served(uid);
    await bench.schedule(MOUNTPOINTS, pod);
    await hinder(pod, reason, "the kubelet's words");
    assert.match(await bench.told(uid, "MountpointPodCannotStart"), words);
    const status = await bench.attachments.until((list) => list.get(attachment)?.status, signal);
    assert.equal(status.phase, "Pending");
    const ready = status.conditions?.find((one) => one.type === "Ready");
    assert.match(ready?.message ?? "", new RegExp(`${pod} cannot start on node ${NODE}: `));
    assert.match(ready?.message ?? "", words);
    await wrong[Symbol.asyncDispose]();

    await using _right = startController(chart, signal, { mountpointPods: POD_SETTINGS });
    const next = mountpointPodNameOf(uid, volume, 1);
    await bench.listed(attachment, (lists) => lists[next]?.includes(uid) === true);
    const made = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: next }, signal);
    assert.equal(made.spec?.containers[0]?.image, POD_SETTINGS.image);
    assert.equal(made.metadata?.annotations?.[ANNOTATION.mountId], pod, "the mount stays the same");
    await bench.mountpointPods.until((list) => {
      const old = list.get(`${MOUNTPOINTS}/${pod}`);
      return old === undefined || old.metadata?.deletionTimestamp !== undefined || undefined;
    }, signal);
    await bench.removeMountpointPod(pod); // what its kubelet does
    await bench.removeWorkload(name);
    await bench.nothingIsLeft();
  });
}

test("a Mountpoint Pod that runs, or whose settings are the same, stays", TIMEOUT, async () => {
  const first = startController(chart, signal, { mountpointPods: WRONG });
  for (const name of ["waits", "runs"]) await bench.volume(`pv-${name}`);
  const [stuck, good] = [
    await bench.served(await bench.workload("waits", "pv-waits")),
    await bench.served(await bench.workload("runs", "pv-runs")),
  ];
  await bench.schedule(MOUNTPOINTS, stuck.pod);
  await hinder(stuck.pod, "ImagePullBackOff", "");
  await bench.runMountpointPod(good.pod);
  await bench.attachments.until(
    (list) => list.get(good.attachment)?.status?.phase === "Mounted" || undefined,
    signal,
  );
  await first[Symbol.asyncDispose]();

  /** The queue is in order: who comes last is served when all others were looked at. */
  const lookAtAll = async (name: string) => {
    await bench.volume(`pv-${name}`);
    await bench.served(await bench.workload(name, `pv-${name}`));
  };
  const podOf = ({ attachment }: { attachment: string }) =>
    Object.keys(bench.attachments.get(attachment)?.spec.mountpointS3PodAttachments ?? {});
  const second = startController(chart, signal, { mountpointPods: WRONG });
  await lookAtAll("after-restart");
  assert.deepEqual([podOf(stuck), podOf(good)], [[stuck.pod], [good.pod]]);
  await second[Symbol.asyncDispose]();

  await using _third = startController(chart, signal, {
    mountpointPods: { ...WRONG, image: "s3csi:another" },
  });
  await lookAtAll("after-upgrade");
  assert.deepEqual(podOf(good), [good.pod]);
  const names = ["waits", "runs", "after-restart", "after-upgrade"];
  for (const name of names) await bench.removeWorkload(name);
  await bench.marked(good.pod);
});
