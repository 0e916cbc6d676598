import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { PUBLISH_TIMES } from "../../src/node/publish-wait.ts";
import type { PublishTimes } from "../../src/node/publish-wait.ts";
import { mountAt, readMounts } from "../../src/sys/mount-info.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { TestNode } from "./test-node.ts";
import { publishRequestFor, volumesOn } from "./test-volumes.ts";

const soon = () => AbortSignal.timeout(15_000);
const kubeletDeadline = () => AbortSignal.timeout(115_000);
/** The "some seconds" before a publish answers that there is no attachment. */
const BURST_MS = 5_000;
const TIMEOUT = { timeout: 60_000 };
/** Longer than any test: only an event can end a publish with these times. */
const NEVER_MS = 3_600_000;
const NEVER: PublishTimes = {
  causeAfterMs: NEVER_MS,
  attachmentWithinMs: NEVER_MS,
  sourceWithinMs: NEVER_MS,
  turnAfterMs: NEVER_MS,
};

function isServed({ mountsDir, sources }: TestNode): boolean {
  const entry = mountAt(readMounts(), join(mountsDir, "mp-1"));
  return entry !== undefined && sources.stateOf(entry.device) !== undefined;
}

describe("a publish that waits", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const requestFor = (node: TestNode, workload: string) =>
    publishRequestFor(node, bucket, workload);

  test("answers Unavailable once a cause is known; the next finds it done", TIMEOUT, async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const volumes = volumesOn(node, bucket, { times: { causeAfterMs: 50 } });
    const request = requestFor(node, "w-1");
    const first = volumes.publish(request, kubeletDeadline());
    node.view.problem = "ImagePullBackOff: no such image";
    node.view.changed();
    const message =
      "Timed out waiting for Mountpoint Pod mp-1 to serve: ImagePullBackOff: no such image";
    await assert.rejects(first, { kind: "remote", message });

    node.view.problem = undefined;
    node.view.changed();
    const mounter = pod.run();
    while (!isServed(node)) await delay(20); // nobody is told what goes on between two publishes
    // Another mount would need the mounter, and the publish would fail at its deadline.
    mounter.signal("SIGSTOP");
    await volumes.publish(request, soon());
    mounter.signal("SIGCONT");
    assert.equal(await fs.readFile(join(request.target.path, "there"), "utf8"), "content");
    await volumes.unpublish(request.target);
  });

  test("waits for an attachment that takes some seconds", TIMEOUT, async () => {
    await using node = await TestNode.start();
    const volumes = volumesOn(node, bucket);
    const request = requestFor(node, "w-1");
    const published = volumes.publish(request, kubeletDeadline());
    published.catch(() => {}); // awaited below
    await delay(BURST_MS);
    node.pod().run();
    await published;
    await volumes.unpublish(request.target);
  });

  test("without an attachment it answers Unavailable within 10 s", TIMEOUT, async () => {
    await using node = await TestNode.start();
    const request = requestFor(node, "w-1");
    const startedMs = performance.now();
    const message = /^Timed out waiting for MountpointS3PodAttachment: is the controller running/;
    const published = volumesOn(node, bucket).publish(request, kubeletDeadline());
    await assert.rejects(published, { kind: "remote", message });
    const tookMs = performance.now() - startedMs;
    assert(tookMs > BURST_MS && tookMs < 10_000, `answered after ${tookMs} ms`);
  });

  test(
    "answers once the controller says that the namespace's limit is reached",
    TIMEOUT,
    async () => {
      await using node = await TestNode.start();
      const volumes = volumesOn(node, bucket, { times: { ...NEVER, causeAfterMs: 50 } });
      const request = requestFor(node, "w-1");
      const published = volumes.publish(request, kubeletDeadline());
      const message = "namespace team-a has reached its limit";
      const refused = assert.rejects(published, { kind: "remote", message });
      await delay(100); // the cause comes later than causeAfterMs
      node.view.heldBack = message;
      node.view.changed();
      await refused;
      node.view.heldBack = undefined;
      node.pod().run();
      await volumes.publish(request, soon());
      await volumes.unpublish(request.target);
    },
  );

  test("gives its turn to a pod of the same volume that has finished", TIMEOUT, async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const { turnAfterMs } = PUBLISH_TIMES;
    const volumes = volumesOn(node, bucket, { times: { ...NEVER, turnAfterMs } });
    const [ended, request] = [requestFor(node, "w-ended"), requestFor(node, "w-1")];
    const published = volumes.publish(request, kubeletDeadline());
    published.catch(() => {}); // awaited below
    await delay(turnAfterMs + 500);
    node.view.finished.add("w-ended");
    node.view.changed();
    const words = /^still waiting for Mountpoint Pod mp-1 to serve: the volume of pod w-ended is/;
    await assert.rejects(published, { kind: "remote", message: words });

    await fs.rm(dirname(ended.target.path), { recursive: true }); // as the kubelet does it
    const next = volumes.publish(request, kubeletDeadline());
    const first = await Promise.race([
      next.catch(() => "answered"),
      delay(turnAfterMs + 1_500, "waits"),
    ]);
    assert.equal(first, "waits");
    await assert.rejects(volumes.unpublish(request.target), { kind: "busy" }); // it still waits
    pod.run();
    await next;
    await volumes.unpublish(request.target);
  });

  test("with other keys it begins anew", TIMEOUT, async () => {
    await using node = await TestNode.start();
    const volumes = volumesOn(node, bucket, { times: { attachmentWithinMs: 50 } });
    const { accessKeyId, secretAccessKey } = bucket.access;
    const context = { ...requestFor(node, "w-1").context, authenticationSource: "secret" as const };
    const withKey = (secret_access_key: string) => ({
      ...requestFor(node, "w-1"),
      context,
      secrets: { access_key_id: accessKeyId, secret_access_key },
    });
    await assert.rejects(volumes.publish(withKey("not-the-key"), soon()), { kind: "remote" });
    node.pod().run();
    const request = withKey(secretAccessKey);
    await volumes.publish(request, soon());
    assert.equal(await fs.readFile(join(request.target.path, "there"), "utf8"), "content");
    await volumes.unpublish(request.target);
  });
});
