import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { TestBucket } from "../engine/test-bucket.ts";
import { mountSpec } from "./mounter-process.ts";
import type { MountNews } from "../../src/node/kept-mount.ts";
import { TestNode, bindFor } from "./test-node.ts";
import type { TestPod } from "./test-node.ts";

const untimed = () => {};
/** Longer than a test may take. */
const FOREVER_MS = 3_600_000;
/** A mounter whose engines refuse to serve: its container has too little memory. */
const SMALL = [join(import.meta.dirname, "small-container.ts"), "mounter", "--comm"];
const TOO_SMALL = /a memory limit of 64 MiB is too small: at least 96 MiB are needed/;

describe("a mount without an engine is given up", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const ensure = (node: TestNode, { pod }: TestPod) =>
    node.sources.ensure(pod, mountSpec(bucket), false, untimed);

  test("no engine comes: given up in time, whoever waits is released and told", async () => {
    await using node = await TestNode.start({ giveUpAfterMs: 1_500 });
    const pod = node.pod();
    const container = pod.run();
    const { dir, device } = await ensure(node, pod);
    using bound = bindFor(node, "w-1", dir);
    await container.killAll();
    const waiting = fs.readFile(join(bound.target, "there"), "utf8");
    await assert.rejects(waiting, /ECONNABORTED|ENOTCONN/);
    assert.equal(node.news.at(-1)?.what, "given up");
    assert.match(node.news.at(-1)?.cause ?? "", /no engine for 2 s/);
    assert.equal(node.sources.stateOf(device), undefined);
    assert.equal(await node.sources.isDead(device), true);
  });

  test("nobody can go on without a journal: given up as soon as that is known", async () => {
    await using node = await TestNode.start({ giveUpAfterMs: FOREVER_MS });
    const pod = node.pod();
    const container = pod.run();
    const { args, ...rest } = mountSpec(bucket);
    const spec = { ...rest, args: [...args, "--no-journal"] };
    const { dir } = await node.sources.ensure(pod.pod, spec, false, untimed);
    using bound = bindFor(node, "w-1", dir);
    await container.killAll();
    const waiting = fs.readFile(join(bound.target, "there"), "utf8");
    pod.run();
    await assert.rejects(waiting, /ECONNABORTED|ENOTCONN/);
    assert.equal(node.news.at(-1)?.what, "given up");
    assert.match(node.news.at(-1)?.cause ?? "", /--no-journal/);
  });

  test("a successor is too small: the mount waits for one with a corrected limit", async () => {
    await using node = await TestNode.start({ giveUpAfterMs: FOREVER_MS });
    const pod = node.pod();
    pod.run();
    const { dir, device } = await ensure(node, pod);
    using bound = bindFor(node, "w-1", dir);
    successorOf(pod, node, 1).runWith(SMALL);
    await refusalOf(node, device);
    const reading = fs.readFile(join(bound.target, "there"), "utf8");
    successorOf(pod, node, 2).run(); // the small one was deleted
    assert.equal(await reading, "content");
    assert.equal(node.news.at(-1)?.what, "handed over");
  });

  test("no successor is large enough: given up in time, and the cause says why", async () => {
    await using node = await TestNode.start({ giveUpAfterMs: 4_000 });
    const pod = node.pod();
    pod.run();
    const { dir, device } = await ensure(node, pod);
    using bound = bindFor(node, "w-1", dir);
    successorOf(pod, node, 1).runWith(SMALL);
    await refusalOf(node, device);
    const waiting = fs.readFile(join(bound.target, "there"), "utf8");
    await assert.rejects(waiting, /ECONNABORTED|ENOTCONN/);
    assert.match(node.news.at(-1)?.cause ?? "", /no engine for 4 s/);
    assert.match(node.news.at(-1)?.cause ?? "", TOO_SMALL);
  });

  test("all of its workloads are being deleted: given up sooner", async () => {
    await using node = await TestNode.start({ giveUpTerminatingAfterMs: 500 });
    const pod = node.pod();
    const container = pod.run();
    const { dir } = await ensure(node, pod);
    using one = bindFor(node, "w-1", dir);
    using _other = bindFor(node, "w-2", dir);
    await container.killAll();
    const waiting = assert.rejects(fs.readFile(join(one.target, "there")), /ECONNABORTED|ENOTCONN/);
    node.view.leaving.add("w-1");
    node.view.changed();
    assert.notEqual(node.news.at(-1)?.what, "given up");
    node.view.leaving.add("w-2");
    node.view.changed();
    await waiting;
    assert.match(node.news.at(-1)?.cause ?? "", /^every workload is terminating/);
  });
});

/** The pod is evicted, and no other than this one can take over its mount. */
function successorOf({ pod }: TestPod, node: TestNode, generation: number): TestPod {
  const successor = node.pod(`mp-${1 + generation}`, { mountId: pod.mountId, generation });
  node.view.set({ ...pod, leaving: true }, successor.pod);
  return successor;
}

/** Resolves when a mounter has refused the mount; rejects when the mount was given up instead. */
async function refusalOf(node: TestNode, device: string): Promise<string> {
  for (;;) {
    const state = node.sources.stateOf(device);
    if (state?.is === "waiting" && TOO_SMALL.test(state.cause)) return state.cause;
    const lost = node.news.find(({ what }: MountNews) => what === "given up");
    assert.equal(lost, undefined);
    await sleep(20);
  }
}
