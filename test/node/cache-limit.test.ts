import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import type { MountSpec } from "../../src/handover/messages.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { MountS3Pod } from "./mount-s3-pod.ts";
import { MounterProcess, mountSpec, mounterWords, ownMount } from "./mounter-process.ts";
import { temporaryDirectory } from "./temporary-directory.ts";
import { TestNode } from "./test-node.ts";

const run = promisify(execFile);
const MIB = 1 << 20;
const LARGE = randomBytes(20 * MIB);
const soon = () => AbortSignal.timeout(15_000);

/** The size that the kubelet compares with an emptyDir's sizeLimit. */
async function diskMib(directory: string): Promise<number> {
  const { stdout } = await run("du", ["-sB1", directory]);
  return Number(stdout.split("\t")[0]) / MIB;
}

async function readsLarge(dir: string): Promise<void> {
  assert((await fs.readFile(join(dir, "large"))).equals(LARGE));
}

describe("the cache of a Mountpoint Pod", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("large", LARGE);
  });
  after(() => bucket[Symbol.asyncDispose]());

  const specWith = (...args: string[]): MountSpec => {
    const spec = mountSpec(bucket);
    return { ...spec, args: [...spec.args, ...args] };
  };

  test("it stays below the pod's limit though the mount names none, or a larger one", async () => {
    for (const size of [[], ["--max-cache-size=10000"]]) {
      await using directory = await temporaryDirectory();
      const cache = join(directory.path, "cache");
      mkdirSync(cache);
      await using mounter = await MounterProcess.start({
        words: mounterWords("--cache-limit", "6"),
      });
      await using mount = await ownMount();
      const link = mounter.link();
      const spec = specWith(`--cache=${cache}`, ...size);
      await link.mount(spec, mount.fds, { resume: false }, soon());
      mount.closeFds();
      await readsLarge(mount.dir);
      const finished = link.finish(soon());
      unmount(mount.dir, { detach: true });
      await finished; // what was read is on the disk by now
      const used = await diskMib(cache);
      assert(used > 3 && used <= 6, `${used} MiB`);
    }
  });

  test("a mount that is taken over keeps to the limit of its new pod", async () => {
    await using directory = await temporaryDirectory();
    const [first, second] = ["first", "second"].map((name) => join(directory.path, name));
    for (const path of [first ?? "", second ?? ""]) mkdirSync(path);
    await using mount = await ownMount();
    const spec = specWith(`--cache=${first}`);
    {
      await using mounter = await MounterProcess.start();
      await mounter.link().mount(spec, mount.fds, { resume: false }, soon());
      await readsLarge(mount.dir);
      await mounter.killAll();
    }
    await using mounter = await MounterProcess.start({ words: mounterWords("--cache-limit", "4") });
    const link = mounter.link();
    const successor = {
      ...spec,
      args: spec.args.map((arg) => arg.replace(first ?? "", second ?? "")),
    };
    await link.mount(successor, mount.fds, { resume: true }, soon());
    mount.closeFds();
    await run("dd", [`if=${join(mount.dir, "large")}`, "iflag=nocache", "count=0", "status=none"]);
    await readsLarge(mount.dir);
    const finished = link.finish(soon());
    unmount(mount.dir, { detach: true });
    await finished;
    const used = await diskMib(second ?? "");
    assert(used > 1 && used <= 4, `${used} MiB`);
  });

  test("mount-s3 is told the limit too", async () => {
    await using node = await TestNode.start();
    await using directory = await temporaryDirectory();
    const pod = new MountS3Pod(node);
    const mounter = pod.run(undefined, "--cache-limit", "6");
    const spec: MountSpec = { ...specWith(`--cache=${directory.path}`), engine: "mount-s3" };
    const source = await node.sources.ensure(pod.pod, spec, false, () => {});
    await readsLarge(source.dir);
    assert.equal(await node.sources.remove(pod.mountId, pod.pod), true);
    assert.equal(await mounter.ended, 0);
    const used = await diskMib(directory.path);
    assert(used > 3 && used <= 6, `${used} MiB`);
  });
});
