import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { openDescriptors } from "../node/open-descriptors.ts";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { memoryMib } from "./process-figures.ts";
import { TestBucket } from "./test-bucket.ts";

const FULL = process.env["FULL"] === "1";
const OPERATIONS = FULL ? 100_000 : 12_000;
const WORKERS = 8;
/** A leak of some KiB per operation would be far more; garbage and allocator settle with time. */
const GROWTH_MIB_MAX = FULL ? 20 : 40;

/** One turn of a worker: all that it makes is gone again at its end. */
const TURN = [
  (dir: string) => fs.mkdir(dir),
  (dir: string) => fs.writeFile(join(dir, "file"), dir),
  async (dir: string) => assert.equal(await fs.readFile(join(dir, "file"), "utf8"), dir),
  async (dir: string) => assert.equal((await fs.stat(join(dir, "file"))).size, dir.length),
  async (dir: string) => assert.deepEqual(await fs.readdir(dir), ["file"]),
  (dir: string) => assert.rejects(fs.stat(join(dir, "absent")), { code: "ENOENT" }),
  (dir: string) => fs.writeFile(join(dir, "file"), "again"),
  (dir: string) => assert.rejects(fs.rmdir(dir), { code: "ENOTEMPTY" }),
  (dir: string) => fs.unlink(join(dir, "file")),
  (dir: string) => assert.rejects(fs.stat(`${dir}-absent`), { code: "ENOENT" }),
  (dir: string) => fs.mkdir(`${dir}-empty`),
  (dir: string) => fs.rmdir(`${dir}-empty`),
] as const;

describe("an engine that has worked for long", () => {
  let bucket: TestBucket;
  let mount: MountedBucket;
  before(async () => {
    bucket = await TestBucket.start();
    mount = await mountBucket(bucket, ["--allow-delete", "--allow-overwrite"]);
  });
  after(async () => {
    await mount[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  let turns = 0;
  /** So many operations by several workers, then what the engine holds. */
  async function work(operations: number) {
    const end = turns + Math.ceil(operations / TURN.length);
    const worker = async () => {
      while (turns < end) {
        const dir = join(mount.dir, `turn-${(turns += 1)}`);
        for (const operation of TURN) await operation(dir);
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, worker));
    const pid = mount.engine.servingPid ?? 0;
    const descriptors = openDescriptors(pid);
    const sockets = descriptors.filter((target) => target.startsWith("socket:"));
    return { rssMib: memoryMib(pid, "VmRSS"), files: descriptors.length - sockets.length, sockets };
  }

  test(`the second half of ${OPERATIONS} operations adds nothing`, async () => {
    const half = await work(OPERATIONS / 2);
    const whole = await work(OPERATIONS / 2);
    assert.equal(whole.files, half.files, "open files");
    assert(whole.sockets.length <= 64, `${whole.sockets.length} sockets`);
    const growthMib = whole.rssMib - half.rssMib;
    assert(growthMib < GROWTH_MIB_MAX, `RSS has grown by ${growthMib} MiB`);
    assert.deepEqual(await bucket.keys(), []);
    assert.equal(await bucket.unfinishedUploads(), 0);
    assert.deepEqual(await fs.readdir(mount.dir), []);
  });
});
