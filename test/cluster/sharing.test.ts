import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import {
  assertNothingLeft,
  makeBucket,
  objectOf,
  removePods,
  shell,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "sharing";
const TEN = Array.from({ length: 10 }, (_, i) => `pod-${i}`);

let it: TestCluster;
before(async () => {
  it = await startTestCluster();
  await makeBucket(it.cluster.s3, BUCKET);
  await it.cluster.apply(...staticVolume("one", BUCKET));
  await it.watch.untilBound("one");
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

test("ten pods that come at once share one Mountpoint Pod; all see what one writes", async () => {
  await it.cluster.apply(...TEN.map((name) => workloadPod(name, "one", BUSYBOX_IMAGE)));
  await Promise.all(TEN.map((name) => it.watch.untilReady(name)));
  assert.equal(it.watch.mountpointPods().length, 1);
  assert.deepEqual(servedUids(), TEN.map(uidOf).toSorted());
  await Promise.all(TEN.map((name) => shell(it, name, `echo ${name} > /data/${name}`)));
  const seen = await shell(it, "pod-0", "cat /data/pod-*");
  assert.equal(seen, TEN.map((name) => `${name}\n`).join(""));
  assert.equal(await objectOf(it.cluster.s3, BUCKET, "pod-9"), "pod-9\n");
});

test("another fsGroup has a Mountpoint Pod of its own", async () => {
  await it.cluster.apply(workloadPod("other", "one", BUSYBOX_IMAGE, { fsGroup: 4000 }));
  await it.watch.untilReady("other");
  assert.equal(it.watch.mountpointPods().length, 2);
  assert.equal(await shell(it, "other", "cat /data/pod-3"), "pod-3\n");
});

test("in whatever order they go, the others go on; at last nothing is left", async () => {
  const [first, second, ...rest] = ["pod-0", "pod-7", "pod-3", "other", "pod-9", "pod-1"];
  assert(first !== undefined && second !== undefined);
  await removePods(it, first); // the one that the Mountpoint Pod was made for
  assert.equal(await shell(it, "pod-5", "cat /data/pod-0"), "pod-0\n");
  await removePods(it, second, ...rest);
  assert.equal(await shell(it, "pod-5", "cat /data/pod-0"), "pod-0\n");
  await removePods(it, "pod-8", "pod-2", "pod-6", "pod-4", "pod-5");
  await assertNothingLeft(it);
});

function servedUids(): string[] {
  const attachments = [...it.watch.attachments.values()];
  const served = attachments.flatMap(({ spec }) => Object.values(spec.mountpointS3PodAttachments));
  return served
    .flat()
    .map(({ workloadPodUID }) => workloadPodUID)
    .toSorted();
}

function uidOf(pod: string): string {
  return it.watch.pod(pod)?.metadata?.uid ?? "";
}
