import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const PROGRAM = join(import.meta.dirname, "map-file.ts");
const CONTENT = Buffer.alloc(100_000, "content ");

describe("mmap of an object", () => {
  let bucket: TestBucket;
  let mount: MountedBucket;
  before(async () => {
    bucket = await TestBucket.start();
    mount = await mountBucket(bucket, ["--allow-overwrite"]);
  });
  after(async () => {
    await mount[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  async function mapFile(name: string, ...how: readonly string[]) {
    const { stdout } = await run(process.execPath, [PROGRAM, join(mount.dir, name), ...how]);
    return JSON.parse(stdout) as { map: string; read: string };
  }

  // prettier-ignore
  const cases: [open: string, share: string, access: string, map: string][] = [
    ["rw", "shared",  "rw", "ENODEV"],
    ["rw", "shared",  "r",  "ENODEV"], // mprotect(2) could make it writable later
    ["rw", "private", "rw", "Xontent "],
    ["r",  "shared",  "r",  "content "],
    ["r",  "shared",  "rw", "EACCES"],
    ["r",  "private", "rw", "Xontent "],
  ];
  for (const [open, share, access, map] of cases) {
    for (const isCached of [false, true]) {
      const what = `opened for ${open}, ${share}, for ${access}${isCached ? ", read before" : ""}`;
      test(`${what}: ${map}, and nobody sees a byte that S3 does not have`, async () => {
        const name = `${open}-${share}-${access}-${isCached}`;
        await bucket.put(name, CONTENT);
        if (isCached) assert((await fs.readFile(join(mount.dir, name))).equals(CONTENT));
        assert.deepEqual(await mapFile(name, open, share, access), { map, read: "content " });
        const { stdout } = await run("head", ["-c", "8", join(mount.dir, name)]);
        assert.equal(stdout, "content ");
        assert((await fs.readFile(join(mount.dir, name))).equals(CONTENT));
        assert((await bucket.get(name)).equals(CONTENT));
      });
    }
  }

  test("a handle for reading and writing reads all of an object, and writes nothing", async () => {
    await bucket.put("object", CONTENT);
    await using file = await fs.open(join(mount.dir, "object"), constants.O_RDWR);
    assert((await file.readFile()).equals(CONTENT));
    const { bytesRead } = await file.read(Buffer.alloc(1), 0, 1, CONTENT.length);
    assert.equal(bytesRead, 0);
    await assert.rejects(file.write("X", 0), /EBADF/);
    await assert.rejects(file.truncate(10), /EPERM/);
    assert((await fs.readFile(join(mount.dir, "object"))).equals(CONTENT));
    assert.equal((await file.stat()).size, CONTENT.length);
  });
});

test("without --allow-overwrite O_TRUNC is EPERM, however a file is opened", async () => {
  await using bucket = await TestBucket.start();
  await using mount = await mountBucket(bucket);
  await bucket.put("object", CONTENT);
  const path = join(mount.dir, "object");
  for (const access of [constants.O_RDONLY, constants.O_WRONLY, constants.O_RDWR]) {
    await assert.rejects(fs.open(path, access | constants.O_TRUNC), /EPERM/);
    assert((await fs.readFile(path)).equals(CONTENT), `${access}`);
  }
});
