import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { TestBucket } from "../engine/test-bucket.ts";
import { mountAsFirstVersion } from "./first-version.ts";
import { TestNode } from "./test-node.ts";
import type { TestPod } from "./test-node.ts";
import { publishRequestFor, volumesOn } from "./test-volumes.ts";

const soon = () => AbortSignal.timeout(15_000);

describe("publish and unpublish on a node", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const requestFor = (node: TestNode, workload: string, readOnly = false) =>
    publishRequestFor(node, bucket, workload, { readOnly });

  async function setUp() {
    const node = await TestNode.start();
    const pod: TestPod = node.pod();
    return { node, pod, view: node.view, volumes: volumesOn(node, bucket) };
  }

  test("two workloads share a mount, each as it asked; a republish answers at once", async () => {
    const { node, pod, view, volumes } = await setUp();
    await using _node = node;
    const mounter = pod.run();
    const [one, two] = [requestFor(node, "w-1"), requestFor(node, "w-2", true)];
    await Promise.all([volumes.publish(one, soon()), volumes.publish(two, soon())]);
    await fs.writeFile(join(one.target.path, "written"), "by one");
    assert.equal(await fs.readFile(join(two.target.path, "written"), "utf8"), "by one");
    await assert.rejects(fs.writeFile(join(two.target.path, "x"), ""), { code: "EROFS" });

    view.set(); // nothing to wait for: it would never come
    const tookMs: number[] = [];
    for (let round = 0; round < 5; round++) {
      const startedMs = performance.now();
      await volumes.publish(one, soon());
      tookMs.push(performance.now() - startedMs);
    }
    // Any one of them may wait for a processor that is busy elsewhere.
    assert(Math.min(...tookMs) < 100, `republishing took ${tookMs.join(", ")} ms`);
    view.set({ ...pod.pod, needsUnmount: true });

    for (const { target } of [one, two, one]) await volumes.unpublish(target); // once too often
    assert.equal(await mounter.ended, 0);
    assert.equal((await bucket.get("written")).toString(), "by one");
    assert.deepEqual(node.mounts(), []);
  });

  test("of two that come at once for a volume of one pod, one is refused", async () => {
    const { node, pod, volumes } = await setUp();
    await using _node = node;
    const requests = ["w-1", "w-2"].map((workload) =>
      publishRequestFor(node, bucket, workload, { isSingle: true }),
    );
    const published = Promise.allSettled(requests.map((one) => volumes.publish(one, soon())));
    pod.run();
    const refused = (await published).filter((one) => one.status === "rejected");
    assert.equal(refused.length, 1);
    assert.match(String(refused[0]?.reason), /pv-1 is ReadWriteOncePod and in use by another pod/);
    for (const { target } of requests) await volumes.unpublish(target);
  });

  test("a read-only volume stays so where a container runtime asks for a writable one", async () => {
    const { node, pod, volumes } = await setUp();
    await using _node = node;
    pod.run();
    const request = { ...requestFor(node, "w-1", true), isReadOnlyVolume: true };
    await volumes.publish(request, soon());
    const { path } = request.target;
    execFileSync("mount", ["-i", "-o", "remount,bind,rw", path]); // as crun does it
    assert.equal(await fs.readFile(join(path, "there"), "utf8"), "content");
    await assert.rejects(fs.writeFile(join(path, "x"), ""), { code: "EROFS" });
  });

  test("while one publish of a target is under way, another is told to come back", async () => {
    const { node, pod, volumes } = await setUp();
    await using _node = node;
    const request = requestFor(node, "w-1");
    const first = volumes.publish(request, soon());
    await assert.rejects(volumes.publish(request, soon()), { kind: "busy" });
    await assert.rejects(volumes.unpublish(request.target), { kind: "busy" });
    pod.run();
    await first;
  });

  test("a deadline is a deadline, with words for what was waited for", async () => {
    const { node, pod, view, volumes } = await setUp();
    await using _node = node;
    const request = requestFor(node, "w-1");
    const publish = () => volumes.publish(request, AbortSignal.timeout(50));
    const serving = /^Timed out waiting for Mountpoint Pod mp-1 to serve$/;
    await assert.rejects(publish(), { kind: "timeout", message: serving });
    await volumes.unpublish(request.target);
    view.set();
    const words = /^Timed out waiting for MountpointS3PodAttachment/;
    await assert.rejects(publish(), { kind: "timeout", message: words });
    view.set(pod.pod);
    pod.run(); // the mount goes on in between: the next publish joins it
    await volumes.publish(request, soon());
  });

  test("where the pod's directory is gone, none is made", async () => {
    const { node, pod, volumes } = await setUp();
    await using _node = node;
    pod.run();
    const request = requestFor(node, "w-1");
    const podDir = join(node.kubeletPath, "pods/w-1");
    await fs.rm(podDir, { recursive: true });
    await assert.rejects(volumes.publish(request, soon()), { kind: "absent" });
    await assert.rejects(fs.stat(podDir), { code: "ENOENT" });
  });

  test("a mount that is dead or hangs is unpublished without touching it", async () => {
    for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
      const { node, pod, volumes } = await setUp();
      await using _node = node;
      const mounter = pod.run();
      const { target, ...rest } = requestFor(node, "w-1");
      await volumes.publish({ target, ...rest }, soon());
      const engines = mounter.enginePids;
      for (const pid of engines) process.kill(pid, signal);
      const startedMs = performance.now();
      await volumes.unpublish(target);
      assert(performance.now() - startedMs < 1_000, signal);
      await assert.rejects(fs.stat(target.path), { code: "ENOENT" });
      assert.deepEqual(await fs.readdir(dirname(target.path)), []);
    }
  });

  test("a dead mount stays on its target until another one takes its place", async () => {
    await using node = await TestNode.start({ giveUpAfterMs: 500 });
    const volumes = volumesOn(node, bucket, { times: { attachmentWithinMs: 50 } });
    const mounter = node.pod("mp-1").run();
    const request = requestFor(node, "w-1");
    const there = join(request.target.path, "there");
    await volumes.publish(request, soon());
    await mounter.killAll();
    await assert.rejects(fs.readFile(there), /ECONNABORTED|ENOTCONN/);
    node.view.set();
    await assert.rejects(volumes.publish(request, soon()), { kind: "remote" });
    await assert.rejects(fs.readFile(there), /ENOTCONN/, "not the node's own disk");
    node.pod("mp-2").run();
    await volumes.publish(request, soon());
    assert.equal(await fs.readFile(there, "utf8"), "content");
    await volumes.unpublish(request.target);
    assert(!node.mounts().some((path) => path.endsWith("/mount")), "all layers are off");
  });

  test("a mount of the first version serves its workload until that is recreated", async () => {
    await using node = await TestNode.start();
    const volumes = volumesOn(node, bucket); // nobody has assigned a Mountpoint Pod
    const request = requestFor(node, "w-1");
    using _engine = mountAsFirstVersion(request.target.path);
    const mountsBefore = node.mounts();
    await volumes.publish(request, soon());
    assert.deepEqual(node.mounts(), mountsBefore);
    await volumes.unpublish(request.target);
    await assert.rejects(fs.stat(request.target.path), { code: "ENOENT" });
  });

  test("a mount of the first version with a Mountpoint Pod assigned: ours goes on top", async () => {
    const { node, pod, volumes } = await setUp();
    await using _node = node;
    pod.run();
    const [alive, dead, unused] = [
      requestFor(node, "w-1"),
      requestFor(node, "w-2"),
      requestFor(node, "w-3"),
    ];
    using _engine = mountAsFirstVersion(alive.target.path);
    for (const { target } of [dead, unused]) mountAsFirstVersion(target.path)[Symbol.dispose]();
    for (const request of [dead, alive]) {
      await volumes.publish(request, soon());
      assert.equal(await fs.readFile(join(request.target.path, "there"), "utf8"), "content");
    }
    for (const { target } of [alive, dead, unused]) {
      await volumes.unpublish(target);
      await assert.rejects(fs.stat(target.path), { code: "ENOENT" });
    }
    assert.deepEqual(node.mounts(), ["plugins/mnt/mp-1"]);
  });

  test("a pod that has finished is not asked again, though it still counts as running", async () => {
    const { node, pod, view, volumes } = await setUp();
    await using _node = node;
    const mounter = pod.run();
    const request = requestFor(node, "w-1");
    await volumes.publish(request, soon());
    await volumes.unpublish(request.target);
    view.set({ ...pod.pod, needsUnmount: true });
    for (let event = 0; event < 5; event += 1) volumes.settleAll();
    assert.equal(await mounter.ended, 0);
    const asked: string[] = [];
    node.sources.remove = async (id) => asked.push(id) > 0;
    for (let event = 0; event < 5; event += 1) volumes.settleAll();
    assert.deepEqual(asked, []);
  });
});
