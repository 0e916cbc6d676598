import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import { limitMemory } from "./memory-limit.ts";
import { fillBucket, startFileBucket } from "./fill-bucket.ts";
import type { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const FULL = process.env["FULL"] === "1";
const FILES_PER_DIRECTORY = 1000;
const DIRECTORIES = FULL ? 1000 : 100;
const IN_ONE_DIRECTORY = FULL ? 100_000 : 20_000;
const CONTAINER_MIB = 512;
/** The engine itself, a page or two, and the inodes that the kernel remembers (about 1 KiB each). */
const LISTING_MIB_MAX = FULL ? 256 : 160;

/** How many files of each size there are. */
async function sizesBelow(dir: string): Promise<string> {
  const script = `find "$1" -type f -printf '%s\\n' | sort | uniq -c`;
  const { stdout } = await run("sh", ["-c", script, "sh", dir]);
  return stdout.trim();
}

describe("a bucket of very many objects", () => {
  let bucket: TestBucket;
  before(async () => {
    const started = await startFileBucket();
    ({ bucket } = started);
    const trees = Array.from({ length: DIRECTORIES }, (_, n) => `tree/d${n}`);
    await fillBucket(started.bucketDir, trees, FILES_PER_DIRECTORY, "file-%06d");
    await fillBucket(started.bucketDir, ["one"], IN_ONE_DIRECTORY, "file-%06d");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const total = DIRECTORIES * FILES_PER_DIRECTORY;
  test(`find over ${total} objects within ${CONTAINER_MIB} MiB`, async (t) => {
    await using limit = await limitMemory(CONTAINER_MIB);
    await using mount = await mountBucket(bucket, [], { NODE_OPTIONS: limit.nodeOption });
    const beganMs = performance.now();
    assert.equal(await sizesBelow(join(mount.dir, "tree")), `${total} 1`);
    t.diagnostic(`${((performance.now() - beganMs) / 1000).toFixed(1)} s, ${limit.peakMib()} MiB`);
    assert(limit.peakMib() > 40, "the engine is not under the limit");
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });

  test(`${IN_ONE_DIRECTORY} entries in one directory, without a peak of memory`, async (t) => {
    await using limit = await limitMemory(CONTAINER_MIB);
    await using mount = await mountBucket(bucket, [], { NODE_OPTIONS: limit.nodeOption });
    const beganMs = performance.now();
    const script = `ls -U "$1" | wc -l`;
    const { stdout } = await run("sh", ["-c", script, "sh", join(mount.dir, "one")]);
    assert.equal(Number(stdout), IN_ONE_DIRECTORY);
    t.diagnostic(`${((performance.now() - beganMs) / 1000).toFixed(1)} s, ${limit.peakMib()} MiB`);
    assert(limit.peakMib() < LISTING_MIB_MAX, `a peak of ${limit.peakMib()} MiB`);
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });
});
