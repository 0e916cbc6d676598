import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { bindMount } from "../../src/sys/bind-mount.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { onMountChange } from "../../src/sys/mount-watch.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { mountSpec } from "./mounter-process.ts";
import { assertNothingLeaked, openDescriptors } from "./open-descriptors.ts";
import { TestNode } from "./test-node.ts";
import type { TestPod } from "./test-node.ts";

const untimed = () => {};

describe("the sources of a node", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const ensure = (node: TestNode, { pod }: TestPod, change = {}) =>
    node.sources.ensure(pod, mountSpec(bucket, change), false, untimed);

  test("made once for all who ask, removed when nothing is bound, nothing is left", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const held = openDescriptors();
    const asked = [ensure(node, pod), ensure(node, pod), ensure(node, pod)]; // the mounter is late
    const mounter = pod.run();
    const [source, ...same] = await Promise.all(asked);
    assert(source !== undefined);
    assert.deepEqual(same, [source, source]);
    assert.equal(await fs.readFile(join(source.dir, "there"), "utf8"), "content");

    const target = join(node.kubeletPath, "target");
    mkdirSync(target);
    bindMount(source.dir, target, { readOnly: false });
    assert.equal(await node.sources.remove("mp-1", pod.pod), false);
    await fs.writeFile(join(target, "bound"), "still served");
    unmount(target, { detach: false });
    assert.equal(await node.sources.remove("mp-1", pod.pod), true);
    assert.equal(await mounter.ended, 0);
    assert.deepEqual([node.mounts(), node.sources.ids()], [[], []]);
    assert(!existsSync(source.dir));
    assert.equal((await bucket.get("bound")).toString(), "still served");
    await assertNothingLeaked(held);
  });

  test("callers of one failed mount each hear why; the next, right one is served", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    pod.run();
    const wrong = () => ensure(node, pod, { bucket: "no-such-bucket" });
    for (const result of await Promise.allSettled([wrong(), wrong(), wrong()])) {
      assert(result.status === "rejected");
      assert.equal(result.reason.kind, "absent");
    }
    assert.deepEqual(node.mounts(), []);
    const [one, other] = await Promise.all([ensure(node, pod), ensure(node, pod)]);
    assert.equal(one.device, other.device);
    assert.deepEqual(node.mounts(), ["plugins/mnt/mp-1"]);
  });

  test("what was removed is mounted anew", async () => {
    await using node = await TestNode.start();
    const pod = node.pod();
    const first = pod.run();
    await ensure(node, pod);
    assert.equal(await node.sources.remove("mp-1", pod.pod), true);
    assert.equal(await first.ended, 0);
    const again = ensure(node, pod); // its socket is still there, with nobody behind it
    pod.run();
    const source = await again;
    assert.equal(await fs.readFile(join(source.dir, "there"), "utf8"), "content");
  });

  test("a pod that never starts delays its own removal only", async () => {
    await using node = await TestNode.start({ mountWithinMs: 15_000, finishWithinMs: 3_000 });
    const stuck = node.pod("mp-stuck");
    const removed = node.sources.remove("mp-stuck", stuck.pod);
    removed.catch(() => {});
    const pod = node.pod();
    pod.run();
    await ensure(node, pod);
    await assert.rejects(removed, { kind: "timeout", message: /did not appear in time/ });
  });

  // prettier-ignore
  const hostile: [mode: string, kind: string, says: RegExp][] = [
    ["garbage",  "remote",  /^the mounter broke the protocol: the peer sent a line that is not JSON$/],
    ["stranger", "remote",  /^the mounter broke the protocol: .*extra/s],
    ["keys",     "remote",  /^the mounter broke the protocol: .{1,300}$/s],
    ["endless",  "remote",  /^the mounter broke the protocol: the peer sent a line of more than 65536 bytes$/],
    ["finished", "remote",  /^the mounter ended before it served$/],
    ["hangup",   "remote",  /^the mounter closed the connection$/],
    ["silent",   "timeout", /^the mounter did not answer in time$/],
  ];
  for (const [mode, kind, message] of hostile) {
    test(`a mounter of the kind "${mode}" is a failure in time, and nothing is left`, async () => {
      await using node = await TestNode.start({ mountWithinMs: 2_000, finishWithinMs: 2_000 });
      const pod = node.pod();
      await pod.runHostile(mode).listening();
      const held = openDescriptors();
      await assert.rejects(ensure(node, pod), { name: "Failure", kind, message });
      assert.deepEqual(node.mounts(), []);
      assert(!existsSync(join(node.mountsDir, "mp-1")));
      await assertNothingLeaked(held);
    });
  }

  test("a mounter that talks without being asked is cut off", async () => {
    await using node = await TestNode.start({ mountWithinMs: 2_000, finishWithinMs: 2_000 });
    const pod = node.pod();
    await pod.runHostile("chatty").listening();
    const held = openDescriptors();
    const asked = ensure(node, pod);
    await asked.catch((error: unknown) => assert.match(String(error), /broke the protocol/));
    await assert.rejects(node.sources.remove("mp-1", pod.pod), { name: "Failure" });
    assert.deepEqual(node.mounts(), []);
    await assertNothingLeaked(held);
  });

  // prettier-ignore
  const swapped: [name: string, plant: (comm: string) => Promise<unknown> | void, says: RegExp][] = [
    ["a file",                (comm) => writeFileSync(join(comm, "mount.sock"), ""),                      /is no socket/],
    ["a directory",           (comm) => mkdirSync(join(comm, "mount.sock")),                              /is no socket/],
    ["a link to a socket",    (comm) => symlinkSync("/run/containerd/containerd.sock", join(comm, "mount.sock")), /blocks the way to its mount\.sock: ELOOP/],
    ["a link to nothing",     (comm) => symlinkSync("/nonexistent", join(comm, "mount.sock")),            /ELOOP/],
  ];
  for (const [name, plant, message] of swapped) {
    test(`${name} in place of the socket is refused`, async () => {
      await using node = await TestNode.start();
      const pod = node.pod();
      const held = openDescriptors();
      await plant(pod.commDir);
      await assert.rejects(ensure(node, pod), { kind: "denied", message });
      assert.deepEqual(node.mounts(), []);
      await assertNothingLeaked(held);
    });
  }

  test("a socket that is served by another pod is refused, whatever it says", async () => {
    await using node = await TestNode.start();
    const [victim, attacker] = [node.pod("mp-1"), node.pod("mp-2")];
    const mounter = attacker.run();
    await mounter.listening();
    await fs.link(mounter.socketPath, join(victim.commDir, "mount.sock"));
    const held = openDescriptors();
    const message = `the socket of pod ${victim.pod.uid} is served by process ${mounter.pid} of another`;
    await assert.rejects(ensure(node, victim), { kind: "denied", message });
    assert.deepEqual(node.mounts(), []);
    await assertNothingLeaked(held);
  });

  test("a mount that ends is not taken for another that got its number: by keys, nor by force", async (t) => {
    await using node = await TestNode.start();
    const [liar, honest] = [node.pod("mp-1"), node.pod("mp-2")];
    const lying = liar.runHostile("liar");
    await Promise.all([lying.listening(), honest.run().listening()]);
    const first = await ensure(node, liar);
    const off = Promise.withResolvers<void>();
    using _mounts = onMountChange(() => node.mounts().length === 0 && off.resolve());
    const removed = node.sources.remove("mp-1", liar.pod);
    await off.promise; // its number is free from here on
    const second = await ensure(node, honest);
    // The kernel gives the lowest free number: only others on this machine can come in between.
    t.diagnostic(`the same number: ${second.device === first.device}`);
    const { credentials } = mountSpec(bucket);
    const other = { accessKeyId: "of-the-other", secretAccessKey: "its" };
    await node.sources.rekey(second.device, other); // not to the liar, who would not answer
    await node.sources.rekey(second.device, credentials);
    lying.signal("SIGUSR2");
    await assert.rejects(removed, { kind: "remote" });
    assert.equal(await fs.readFile(join(second.dir, "there"), "utf8"), "content");
  });

  test("ending by force ends a connection of which another namespace has a copy", async () => {
    await using node = await TestNode.start({ mountWithinMs: 15_000, finishWithinMs: 1_000 });
    const pod = node.pod();
    const mounter = pod.run();
    const source = await ensure(node, pod);
    const inside = `cd ${source.dir} && echo in && cat`; // else removing the directory unmounts it
    const holder = spawn("unshare", ["-m", "--propagation", "private", "sh", "-c", inside]);
    const gone = once(holder, "exit");
    try {
      await once(holder.stdout, "data");
      process.kill(mounter.pid, "SIGSTOP");
      await assert.rejects(node.sources.remove("mp-1", pod.pod), { kind: "timeout" });
      const seen = fs.readdir(`/proc/${holder.pid}/cwd/`);
      await assert.rejects(seen, { code: "ENOTCONN" });
      process.kill(mounter.pid, "SIGCONT");
      assert.equal(await mounter.ended, 0);
    } finally {
      holder.kill("SIGKILL");
      await gone;
    }
  });
});
