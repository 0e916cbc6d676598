import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { DEFAULT_NODE } from "../../tools/stack/cluster-config.ts";
import { isReady } from "../../tools/stack/cluster-watch.ts";
import { staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import {
  assertNothingLeft,
  makeBucket,
  removePods,
  shell,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "crowd";
const VOLUMES = Array.from({ length: 10 }, (_, i) => `volume-${i}`);
const PODS = Array.from({ length: 50 }, (_, i) => `pod-${i}`);
const WITHIN_MS = 240_000;

let it: TestCluster;
before(async () => {
  it = await startTestCluster(DEFAULT_NODE);
  await makeBucket(it.cluster.s3, BUCKET);
  await it.cluster.apply(...VOLUMES.flatMap((name) => staticVolume(name, BUCKET)));
  await Promise.all(VOLUMES.map((name) => it.watch.untilBound(name)));
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

test("fifty pods at once on ten volumes are served, though the kubelet is killed", async () => {
  await it.cluster.apply(...PODS.map((name, i) => workloadPod(name, volumeOf(i), BUSYBOX_IMAGE)));
  const isFirst = () => PODS.some((name) => isReady(it.watch.pod(name)));
  await it.watch.until(it.watch.pods, "the first pod is Ready", isFirst, WITHIN_MS);
  await it.cluster.restart("kubelet");
  await Promise.all(PODS.map((name) => it.watch.untilReady(name, WITHIN_MS)));
  assert.equal(it.watch.mountpointPods().length, VOLUMES.length);
  await shell(it, "pod-0", "echo here > /data/here");
  assert.equal(await shell(it, "pod-49", "cat /data/here"), "here\n");
});

test("they all go at once, though the kubelet is killed again, and nothing is left", async () => {
  const isFirst = () => PODS.some((name) => it.watch.pod(name) === undefined);
  const going = removePods(it, ...PODS);
  going.catch(() => {}); // awaited below
  await it.watch.until(it.watch.pods, "the first pod is gone", isFirst, WITHIN_MS);
  await it.cluster.restart("kubelet");
  await going;
  await assertNothingLeft(it);
});

function volumeOf(index: number): string {
  return VOLUMES[index % VOLUMES.length] ?? "";
}
