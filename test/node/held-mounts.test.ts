import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { MountpointPod } from "../../src/node/cluster-view.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { FileWriter } from "./file-writer.ts";
import { mountSpec } from "./mounter-process.ts";
import { assertNothingLeaked, openDescriptors } from "./open-descriptors.ts";
import { TestNode, bindFor } from "./test-node.ts";
import type { TestPod } from "./test-node.ts";

const untimed = () => {};
const BIG_BYTES = 24 << 20;
/** Longer than a test may take. */
const FOREVER_MS = 3_600_000;

const later = ({ pod }: TestPod): Partial<MountpointPod> => ({
  mountId: pod.mountId,
  generation: pod.generation + 1,
});

/** Keys are on their way to an engine: with them it may read no more. */
async function untilRefused(read: () => Promise<string>): Promise<void> {
  const reading = async () => {
    for (;;) await read();
  };
  await assert.rejects(reading, { code: "EACCES" });
}

/** And with those it may again. */
async function untilRead(read: () => Promise<string>): Promise<void> {
  while ((await read().catch(() => "")) !== "content") continue;
}

describe("a mount outlives the container that serves it", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "content");
    await bucket.put("big", Buffer.alloc(BIG_BYTES, "0123456789abcdef"));
  });
  after(() => bucket[Symbol.asyncDispose]());

  const ensure = (node: TestNode, { pod }: TestPod) =>
    node.sources.ensure(pod, mountSpec(bucket), false, untimed);

  test("all of a container is killed, its next one goes on: open files and all", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const first = pod.run();
    const { dir } = await ensure(node, pod);
    await using file = await FileWriter.open(join(dir, "written"));
    await file.write("a", 10);
    await first.killAll();
    const reading = fs.readFile(join(dir, "big")); // waits for an engine
    const second = pod.run();
    assert.equal((await reading).length, BIG_BYTES);
    await file.write("b", 10);
    await file.close();
    assert.equal((await bucket.get("written")).toString(), `${"a".repeat(10)}${"b".repeat(10)}`);
    const news = node.news.map(({ what }) => what);
    assert.deepEqual(news, ["handed over"]);
    assert.equal(await node.sources.remove("mp-1", pod.pod), true);
    assert.equal(await second.ended, 0);
    assert.deepEqual(node.mounts(), []);
  });

  test("what is held is closed with the mount", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const held = openDescriptors();
    pod.run();
    await ensure(node, pod);
    assert(openDescriptors().length > held.length);
    assert.equal(await node.sources.remove("mp-1", pod.pod), true);
    await assertNothingLeaked(held);
  });

  test("a successor pod takes over from one that lives: the old is dead before", async () => {
    await using node = await TestNode.start();
    const old = node.pod();
    const first = old.run();
    const { dir } = await ensure(node, old);
    await using file = await FileWriter.open(join(dir, "moved"));
    await file.write("o", 5);
    node.view.set({ ...old.pod, leaving: true });
    const next = node.pod("mp-2", later(old));
    assert.equal(await fs.readFile(join(dir, "there"), "utf8"), "content", "it still serves");
    const second = next.run();
    assert.notEqual(await first.ended, 0);
    await file.write("n", 5);
    await file.close();
    assert.equal((await bucket.get("moved")).toString(), "ooooonnnnn");
    assert.equal(node.news[0]?.pod.name, "mp-2");
    assert.equal(await node.sources.remove("mp-1", next.pod), true);
    assert.equal(await second.ended, 0);
  });

  test("killed again and again, with writes on the way: nothing acknowledged is lost", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    let container = pod.run();
    const { dir } = await ensure(node, pod);
    await using file = await FileWriter.open(join(dir, "long"));
    const [letters, count] = ["abcde", 3 << 20];
    for (const letter of letters) {
      await file.write(letter, count);
      await container.killAll();
      container = pod.run();
    }
    await file.close();
    const expected = Buffer.concat(Array.from(letters, (letter) => Buffer.alloc(count, letter)));
    assert((await bucket.get("long")).equals(expected));
  });

  test("let go while the container is away: a file that is still open is not published", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const first = pod.run();
    const { dir } = await ensure(node, pod);
    await using closed = await FileWriter.open(join(dir, "closed"));
    await closed.write("x", 9);
    await closed.close();
    await using file = await FileWriter.open(join(dir, "open"));
    await file.write("x", 9);
    await first.killAll();
    const removed = node.sources.remove("mp-1", pod.pod);
    const second = pod.run();
    assert.equal(await removed, true);
    assert.equal(await second.ended, 0);
    assert.equal((await bucket.get("closed")).toString(), "xxxxxxxxx");
    assert(!(await bucket.keys()).includes("open"));
  });

  test("the node service restarts: it gets the descriptors back, and the mount is safe", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const first = pod.run();
    const source = await ensure(node, pod);
    await using file = await FileWriter.open(join(source.dir, "both"));
    await file.write("1", 4);
    const sources = node.reborn();
    await sources.adoptAll();
    assert.equal(sources.stateOf(source.device)?.is, "served");
    assert.deepEqual(await ensure(node, pod), source);
    await first.killAll();
    pod.run();
    await file.write("2", 4);
    await file.close();
    assert.equal((await bucket.get("both")).toString(), "11112222");
  });

  test("the node service ends while it alone holds a mount: not before another does", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const first = pod.run();
    const { dir, device } = await ensure(node, pod);
    await using file = await FileWriter.open(join(dir, "alone"));
    await file.write("a", 10);
    await node.sources.untilAllServed(FOREVER_MS); // at once
    await first.killAll();
    while (node.sources.stateOf(device)?.is !== "waiting") await nextTurn();
    await node.sources.untilAllServed(50); // in vain, and over in time
    const taken = node.sources.untilAllServed(FOREVER_MS);
    const second = pod.run();
    await taken;
    const sources = node.reborn();
    await file.write("b", 10);
    await file.close();
    assert.equal((await bucket.get("alone")).toString(), `${"a".repeat(10)}${"b".repeat(10)}`);
    await sources.adoptAll();
    assert.equal(await sources.remove("mp-1", pod.pod), true);
    assert.equal(await second.ended, 0);
  });

  test("a mounter that is stopped delays nobody at a restart, and is left alone", async () => {
    await using node = await TestNode.start();
    const [stopped, lively] = [node.pod("mp-1"), node.pod("mp-2")];
    const asleep = stopped.run();
    lively.run();
    const [one, other] = [await ensure(node, stopped), await ensure(node, lively)];
    asleep.signal("SIGSTOP");
    const sources = node.reborn();
    const startedMs = performance.now();
    for (let pod = 0; pod < 20; pod += 1) node.view.changed(); // as a list of pods tells
    await sources.adoptAll();
    assert(performance.now() - startedMs < 3_000);
    assert.deepEqual(
      [one, other].map(({ device }) => sources.stateOf(device)?.is),
      [undefined, "served"],
    );
    assert.equal(await sources.isDead(one.device), false, "in doubt it lives");
    asleep.signal("SIGCONT");
    await sources.adoptAll();
    assert.equal(sources.stateOf(one.device)?.is, "served");
  });

  test("half made by a crash, with no engine: recognised, and made anew", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const first = pod.run();
    const dead = await ensure(node, pod);
    const sources = node.reborn();
    await first.killAll(); // while nobody held a copy
    pod.run();
    const live = await sources.ensure(pod.pod, mountSpec(bucket), false, untimed);
    assert.equal(live.dir, dead.dir);
    assert.equal(await fs.readFile(join(live.dir, "there"), "utf8"), "content");
  });

  test("an engine ended while the node service was away: its users are told, once", async () => {
    await using node = await TestNode.start();
    const pods = [node.pod("mp-1"), node.pod("mp-2")];
    const containers = pods.map((pod) => pod.run());
    const [used, unused] = await Promise.all(pods.map((pod) => ensure(node, pod)));
    using _bound = bindFor(node, "w-1", used?.dir ?? "");
    const sources = node.reborn();
    for (const container of containers) await container.killAll();
    await sources.adoptAll();
    await sources.adoptAll();
    const told = node.news.map(({ what, mountId, source }) => ({ what, mountId, source }));
    assert.deepEqual(told, [{ what: "given up", mountId: "mp-1", source: used }]);
    assert.equal(await sources.isDead(unused?.device ?? ""), true);
  });

  test("the node service restarts with other keys: mounts that use the driver's get them", async () => {
    const { accessKeyId, secretAccessKey } = bucket.access;
    let keys = { accessKeyId, secretAccessKey: "another" };
    const driverKeys = ({ name }: MountpointPod) => (name === "mp-1" ? keys : undefined);
    await using node = await TestNode.start({ driverKeys });
    const pods = [node.pod("mp-1"), node.pod("mp-2")];
    for (const pod of pods) pod.run();
    const [driven, other] = await Promise.all(pods.map((pod) => ensure(node, pod)));
    const read = (source = driven) => fs.readFile(join(source?.dir ?? "", "there"), "utf8");
    await node.reborn().adoptAll();
    await untilRefused(read);
    assert.equal(await read(other), "content");
    keys = { accessKeyId, secretAccessKey };
    await node.reborn().adoptAll();
    await untilRead(read);
  });

  test("who joins a mount brings the keys of today", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    pod.run();
    const { dir } = await ensure(node, pod);
    const { accessKeyId } = bucket.access;
    const credentials = { accessKeyId, secretAccessKey: "another" };
    const spec = { ...mountSpec(bucket), credentials };
    await node.sources.ensure(pod.pod, spec, false, untimed);
    const read = () => fs.readFile(join(dir, "there"), "utf8");
    await untilRefused(read);
    await ensure(node, pod);
    await untilRead(read);
  });

  // prettier-ignore
  const returned: [mode: string, says: RegExp][] = [
    ["shares nothing",     /0 descriptors came back, not 4/],
    ["shares as mount-s3", /0 descriptors came back, not 4/],
    ["shares files",       /no FUSE connection/],
    ["shares another",     /connection \d+ came back, not \d+/],
    ["shares too many",    /\d+ descriptors came back, not 4|more descriptors came/],
    ["shares no memory",   /no such memory/],
  ];
  for (const [mode, says] of returned) {
    test(`a mounter that ${mode} is not believed, and nothing of it is kept`, async () => {
      await using node = await TestNode.start();
      const pod = node.pod();
      const honest = pod.run();
      const source = await ensure(node, pod);
      const sources = node.reborn();
      await honest.killAll(); // nobody held a copy, so it is dead
      rmSync(join(pod.commDir, "mount.sock"));
      await pod.runHostile(mode).listening();
      const held = openDescriptors();
      await assert.rejects(sources.ensure(pod.pod, mountSpec(bucket), false, untimed), says);
      assert.equal(sources.stateOf(source.device), undefined);
      await assertNothingLeaked(held);
    });
  }
});
