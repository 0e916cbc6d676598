import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { TestBucket } from "../engine/test-bucket.ts";
import { mountSpec } from "./mounter-process.ts";
import { TestNode, bindFor } from "./test-node.ts";
import type { TestPod } from "./test-node.ts";

const untimed = () => {};
/** Longer than a test may take. */
const FOREVER_MS = 3_600_000;

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

  test("all of its workloads are being deleted: given up sooner", async () => {
    await using node = await TestNode.start({ giveUpLeavingAfterMs: 500 });
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
