import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { MountSpec } from "../../src/handover/messages.ts";
import { untilMounter } from "../../src/node/mounter-socket.ts";
import { conditionOf } from "../../src/node/volume-stats.ts";
import { childrenOf } from "../../tools/stack/processes.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { MountS3Pod } from "./mount-s3-pod.ts";
import { MounterProcess, mountSpec, ownMount } from "./mounter-process.ts";
import { assertNothingLeaked, openDescriptors } from "./open-descriptors.ts";
import { TestNode, bindFor } from "./test-node.ts";
import { publishRequestFor, volumesOn } from "./test-volumes.ts";

const untimed = () => {};
const soon = () => AbortSignal.timeout(15_000);
const FIRST = { resume: false };
const DEAD = /ECONNABORTED|ENOTCONN/;
const read = (dir: string) => fs.readFile(join(dir, "there"), "utf8");

/** As a crash does: all of its processes at once. */
function killEngine(mounter: MounterProcess): void {
  const [engine = -1] = mounter.enginePids;
  for (const pid of [...childrenOf(engine), engine]) process.kill(pid, "SIGKILL");
}

describe("mount-s3 in the place of our engine", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const specFor = (change: Partial<MountSpec> = {}) =>
    mountSpec(bucket, { engine: "mount-s3", ...change });
  const ensure = (node: TestNode, { pod }: MountS3Pod, change: Partial<MountSpec> = {}) =>
    node.sources.ensure(pod, specFor(change), false, untimed);

  test("serves, and alone has the connection; let go, it ends by itself and with 0", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const held = openDescriptors();
    const mounter = pod.run();
    const source = await ensure(node, pod);
    assert.equal(await read(source.dir), "content");
    await fs.writeFile(join(source.dir, "written"), "through it");
    assert.equal(node.sources.stateOf(source.device)?.is, "served");
    for (const pid of ["self", mounter.pid] as const) {
      const kept = openDescriptors(pid).filter((target) => /fuse|memfd/.test(target));
      assert.deepEqual(kept, [], `nothing of the mount is kept by ${pid}`);
    }
    assert.equal(await node.sources.remove(pod.mountId, pod.pod), true);
    assert.equal(await mounter.ended, 0);
    assert.equal((await bucket.get("written")).toString(), "through it");
    assert.deepEqual(node.mounts(), []);
    assert.deepEqual(node.news, [], "an end that was asked for is no news");
    assert(!mounter.output.includes(bucket.access.secretAccessKey), "a key in the log");
    await assertNothingLeaked(held);
  });

  test("it dies: the mount is dead and everybody is told; the next container has a new one", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const { dir, device } = await ensure(node, pod);
    killEngine(mounter);
    assert.notEqual(await mounter.ended, 0);
    await assert.rejects(read(dir), DEAD);
    while (node.sources.stateOf(device) !== undefined) await nextTurn();
    assert.deepEqual(
      node.news.map(({ what, cause }) => [what, cause]),
      [["given up", "mount-s3 has ended: SIGKILL"]],
    );
    const { abnormal, message } = conditionOf(dir, (one) => node.sources.stateOf(one));
    assert.deepEqual([abnormal, message], [true, "nobody serves it: restart the pod"]);
    assert.equal(await node.sources.isDead(device), true);

    const next = pod.run();
    const fresh = await ensure(node, pod);
    assert.equal(await read(fresh.dir), "content");
    assert.equal(await node.sources.remove(pod.mountId, pod.pod), true);
    assert.equal(await next.ended, 0);
  });

  test("what mount-s3 prints becomes JSON lines of the mounter's log", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const program = join(pod.credentialsDir, "prints");
    const lines = [
      "#!/bin/sh",
      "echo bucket photos is mounted",
      "echo '2026-01-02T03:04:05Z  WARN mountpoint_s3: slow' >&2",
      "printf '%20000s' x >&2",
      "printf '\\nError: no bucket\\n\\nCaused by: it is gone' >&2",
      "exit 1",
    ];
    await fs.writeFile(program, `${lines.join("\n")}\n`, { mode: 0o755 });
    const mounter = pod.run(program);
    const message = /^mount-s3 ended before it served: exit status 1: .*Caused by: it is gone$/;
    await assert.rejects(ensure(node, pod), { kind: "remote", message });
    mounter.signal("SIGTERM");
    await mounter.ended;
    const log = mounter.output.split("\n").filter((line) => line !== "");
    const said = log.map((line) => JSON.parse(line)).filter(({ source }) => source === "mount-s3");
    assert.deepEqual(said.map(({ level, text }) => `${level} ${String(text).trim()}`).toSorted(), [
      "error Caused by: it is gone",
      "error Error: no bucket",
      "info bucket photos is mounted",
      "warn ", // the first two pieces of the long line
      "warn ",
      "warn 2026-01-02T03:04:05Z  WARN mountpoint_s3: slow",
      "warn x",
    ]);
  });

  test("it dies while nobody holds its mount: its workloads are told when its pod changes", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const { dir, device } = await ensure(node, pod);
    using _bound = bindFor(node, "w-1", dir);
    node.reborn(); // as when the mounter was deaf: it serves, and the connection to it is gone
    await mounter.killAll();
    await assert.rejects(read(dir), DEAD);
    assert.equal(node.news.length, 0);
    node.view.changed(); // what the kubelet says of the container
    while (node.news.length === 0) await nextTurn();
    node.view.changed();
    const cause = "its engine ended while the node service was not connected to it";
    assert.deepEqual(
      node.news.map((one) => [one.what, one.source.device, one.cause]),
      [["given up", device, cause]],
    );
  });

  test("a mount whose connection broke off is held again when its pod changes", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const { device } = await ensure(node, pod);
    const sources = node.reborn();
    assert.equal(sources.stateOf(device), undefined);
    node.view.changed();
    while (sources.stateOf(device) === undefined) await nextTurn();
    killEngine(mounter);
    while (node.news.length === 0) await nextTurn();
    assert.equal(node.news[0]?.cause, "mount-s3 has ended: SIGKILL");
  });

  test("a publish that replaces a dead mount tells the workloads that still have it", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const { dir } = await ensure(node, pod);
    using _bound = bindFor(node, "w-1", dir);
    node.reborn();
    await mounter.killAll();
    pod.run();
    await ensure(node, pod);
    assert.deepEqual(
      node.news.map(({ what }) => what),
      ["given up"],
    );
  });

  test("all of its container dies: the same, by the kernel's word", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const { dir, device } = await ensure(node, pod);
    const waiting = node.sources.untilAllServed(60_000); // nothing to wait for
    await mounter.killAll();
    await waiting;
    await assert.rejects(read(dir), DEAD);
    while (node.sources.stateOf(device) !== undefined) await nextTurn();
    assert.equal(node.news.at(-1)?.cause, "the Mountpoint Pod's container has ended");
    assert.equal(await node.sources.isDead(device), true);
    assert.equal(await node.sources.remove(pod.mountId, undefined), true);
    assert.deepEqual(node.mounts(), []);
  });

  test("let go while a file is open, so that unmounting does not end it: it is asked to", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const { dir } = await ensure(node, pod);
    await using open = await fs.open(join(dir, "there"));
    assert.equal(await node.sources.remove(pod.mountId, pod.pod), true);
    assert.equal(await mounter.ended, 0);
    await assert.rejects(open.stat(), DEAD);
    assert.deepEqual(node.mounts(), []);
  });

  // prettier-ignore
  const failing: [name: string, change: Partial<MountSpec>, kind: string, says: RegExp][] = [
    ["an option that is not one", { args: ["--turbo"] },          "invalid", /^mount-s3 ended before it served: exit status 2: error: unexpected argument '--turbo' found/],
    ["root as the owner",         { args: ["--uid=0"] },          "invalid", /invalid value '0' for '--uid'/],
    ["a bucket that is not there", { bucket: "no-such-bucket" },  "remote",  /^mount-s3 ended before it served: exit status 3: .*no-such-bucket.*NoSuchBucket/],
    ["a key of two lines",        { credentials: { accessKeyId: "a\nb", secretAccessKey: "x" } }, "invalid", /^accessKeyId: /],
  ];
  for (const [name, change, kind, says] of failing) {
    test(`${name}: its own words, and the next, right try is served`, async () => {
      await using node = await TestNode.start();
      const pod = new MountS3Pod(node);
      const mounter = pod.run();
      const held = openDescriptors();
      await assert.rejects(ensure(node, pod, change), { kind, message: says });
      assert.deepEqual([node.mounts(), mounter.enginePids], [[], []]);
      await assertNothingLeaked(held);
      const { dir } = await ensure(node, pod);
      assert.equal(await read(dir), "content");
    });
  }

  test("an image without the program: said so, with its path", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    pod.run("/opt/none/mount-s3");
    const message = /^can't start \/opt\/none\/mount-s3: .*ENOENT/;
    await assert.rejects(ensure(node, pod), { kind: "refused", message });
  });

  test("one that hangs at its start ends when nobody waits for it any more", async () => {
    await using node = await TestNode.start({ mountWithinMs: 1_000 });
    const pod = new MountS3Pod(node);
    const program = join(pod.credentialsDir, "hangs");
    await fs.writeFile(program, "#!/bin/sh\nexec sleep 3600\n", { mode: 0o755 });
    const mounter = pod.run(program);
    await mounter.listening();
    await assert.rejects(ensure(node, pod), { kind: "timeout" });
    assert.deepEqual(node.mounts(), []);
    while (mounter.enginePids.length > 0) await nextTurn();
    assert.equal(mounter.child.exitCode, null, "it waits for the next try");
  });

  test("other keys lie ready in its file: it takes them when it looks", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    pod.run();
    const { dir, device } = await ensure(node, pod);
    const { accessKeyId, secretAccessKey } = bucket.access;
    const written = (name: string) => fs.writeFile(join(dir, name), "x");
    await node.sources.rekey(device, { accessKeyId, secretAccessKey: "wrong" });
    for (let n = 0; ; n += 1) {
      const code = await written(`rotated-${n}`).then(
        () => undefined,
        (error: NodeJS.ErrnoException) => error.code,
      );
      if (code === "EACCES") break;
      assert.equal(code, undefined);
    }
    await node.sources.rekey(device, { accessKeyId, secretAccessKey });
    await written("back");
    const file = await fs.readFile(join(pod.credentialsDir, "credentials"), "utf8");
    assert(file.includes(secretAccessKey));
  });

  test("the node service restarts: the mount is found again, without its descriptors", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const source = await ensure(node, pod);
    const held = openDescriptors();
    const sources = node.reborn();
    assert.equal(await read(source.dir), "content");
    await sources.adoptAll();
    assert.equal(sources.stateOf(source.device)?.is, "served");
    assert.equal(await sources.isDead(source.device), false);
    assert.deepEqual(await ensure(node, pod), source, "who comes now joins it");
    await assertNothingLeaked(held);
    assert.equal(await sources.remove(pod.mountId, pod.pod), true);
    assert.equal(await mounter.ended, 0);
  });

  test("published and unpublished; a pod that is deleted leaves with its last workload", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    const mounter = pod.run();
    const volumes = volumesOn(node, bucket);
    const request = publishRequestFor(node, bucket, "w-1");
    const mountOptions = ["outage-limit=9"];
    const ours = publishRequestFor(node, bucket, "w-2", { mountOptions });
    const message = /^mountOptions: outage-limit is not an option of the engine mount-s3/;
    await assert.rejects(volumes.publish(ours, soon()), { kind: "invalid", message });
    await volumes.publish(request, soon());
    assert.equal(await read(request.target.path), "content");

    node.view.set({ ...pod.pod, leaving: true });
    mounter.signal("SIGTERM");
    volumes.settleAll();
    await fs.writeFile(join(request.target.path, "late"), "still served");
    await volumes.unpublish(request.target);
    assert.equal(await mounter.ended, 0);
    assert.equal((await bucket.get("late")).toString(), "still served");
    while (node.mounts().length > 0) await nextTurn();
  });

  test("read-only is the kernel's to keep: mount-s3 takes no such word", async () => {
    await using node = await TestNode.start();
    new MountS3Pod(node).run();
    const volumes = volumesOn(node, bucket);
    const mountOptions = ["allow-other", "read-only", "auto-unmount"];
    const request = publishRequestFor(node, bucket, "w-1", { mountOptions });
    await volumes.publish(request, soon());
    assert.equal(await read(request.target.path), "content");
    const writing = fs.writeFile(join(request.target.path, "x"), "");
    await assert.rejects(writing, { code: "EROFS" });
  });

  test("a dead one is taken off at the next publish: from the pod that is there by then", async () => {
    await using node = await TestNode.start();
    const old = new MountS3Pod(node, "mp-1");
    const volumes = volumesOn(node, bucket);
    const request = publishRequestFor(node, bucket, "w-1");
    const first = old.run();
    await volumes.publish(request, soon());
    await first.killAll();
    while (node.news.length === 0) await nextTurn();
    node.view.set();
    const next = new MountS3Pod(node, "mp-2", 1);
    next.run();
    await volumes.publish(request, soon());
    assert.equal(await read(request.target.path), "content");
    volumes.settleAll();
    const left = ["plugins/mnt/mp-2.mount-s3", "pods/w-1/volumes/kubernetes.io~csi/pv-1/mount"];
    while (node.mounts().length > left.length) await nextTurn();
    assert.deepEqual(node.mounts(), left);
  });

  test("a mounter serves by its own engine alone, and goes on with no mount of another's", async () => {
    await using node = await TestNode.start();
    const pod = new MountS3Pod(node);
    pod.run();
    await using own = await MounterProcess.start();
    await using mount = await ownMount();
    const [fuse = -1] = mount.fds;
    using toForeign = await untilMounter(node.kubeletPath, pod.pod.uid, soon());
    using toOwn = own.link();
    // prettier-ignore
    const wrong: [ask: () => Promise<void>, says: RegExp][] = [
      [() => toOwn.mount(specFor(), [fuse], FIRST, soon()),                      /by its own engine, not by mount-s3/],
      [() => toForeign.mount(mountSpec(bucket), mount.fds, FIRST, soon()),       /by mount-s3, which is not what was asked for/],
      [() => toForeign.mount(specFor(), [fuse], { resume: true }, soon()),       /by mount-s3, which goes on with no mount of another/],
      [() => toForeign.mount(specFor(), mount.fds, FIRST, soon()),               /4 descriptors came, not fuse alone/],
    ];
    for (const [ask, message] of wrong) {
      await assert.rejects(ask(), { kind: "invalid", message });
    }
  });
});
