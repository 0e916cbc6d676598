import assert from "node:assert/strict";
import { closeSync, fstatSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { MOUNT_FDS } from "../../src/sys/mount-fds.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { MounterProcess, mountSpec, ownMount } from "./mounter-process.ts";

const FIRST = { resume: false };
const soon = () => AbortSignal.timeout(15_000);

describe("a mounter that serves", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "before");
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("shares what it serves, and nothing where it serves nothing", async () => {
    await using mounter = await MounterProcess.start();
    using link = mounter.link();
    assert.equal(await link.share(soon()), undefined);
    await using mount = await ownMount();
    await link.mount(mountSpec(bucket), mount.fds, FIRST, soon());
    const shared = await link.share(soon());
    assert(shared !== undefined);
    const { ino } = fstatSync(mount.fds[1] ?? -1);
    assert.equal(fstatSync(shared.fds[1] ?? -1).ino, ino, "the same memory");
    assert.equal(shared.fds.length, MOUNT_FDS.length);
    assert.deepEqual(shared.spec, mountSpec(bucket));
    for (const fd of shared.fds) closeSync(fd);
  });

  test("other keys are used at once, and by the engines that come after", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await ownMount();
    using link = mounter.link();
    await link.mount(mountSpec(bucket), mount.fds, FIRST, soon());
    const { accessKeyId, secretAccessKey } = bucket.access;
    const [wrong, right] = [
      { accessKeyId, secretAccessKey: "wrong" },
      { accessKeyId, secretAccessKey },
    ];
    await link.rekey(wrong, soon());
    await assert.rejects(fs.readFile(join(mount.dir, "there"), "utf8"), { code: "EACCES" });
    await link.rekey(right, soon());
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
    await link.rekey(wrong, soon());
    const [engine = -1] = mounter.enginePids;
    process.kill(engine, "SIGKILL");
    await assert.rejects(fs.writeFile(join(mount.dir, "new"), "x"), { code: "EACCES" });
    await link.rekey(right, soon());
    await fs.writeFile(join(mount.dir, "new"), "x");
    assert(!mounter.output.includes(secretAccessKey), "a key in the log");
  });

  test("questions wait for each other: keys that are under way do not delay the end", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await ownMount();
    using link = mounter.link();
    await link.mount(mountSpec(bucket), mount.fds, FIRST, soon());
    const { accessKeyId, secretAccessKey } = bucket.access;
    mounter.signal("SIGSTOP"); // it answers nothing yet
    const keys = link.rekey({ accessKeyId, secretAccessKey }, soon());
    const impatient = link.share(AbortSignal.timeout(50));
    await assert.rejects(impatient, { kind: "timeout" });
    const [shared, finished] = [link.share(soon()), link.finish(soon())];
    assert(link.isOpen, "who gave up in the queue has spoilt nothing");
    mounter.signal("SIGCONT");
    await keys;
    const fds = (await shared)?.fds ?? [];
    assert.equal(fds.length, MOUNT_FDS.length);
    for (const fd of fds) closeSync(fd);
    await finished;
    assert.equal(await mounter.ended, 0);
  });
});
