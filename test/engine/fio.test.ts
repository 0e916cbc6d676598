import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { fio } from "./fio.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const JOBS = 4;
const SIZE_MIB = process.env["FULL"] === "1" ? 512 : 48;
const ALL = { numjobs: JOBS, size: `${SIZE_MIB}m`, bs: "128k" };

describe("fio, which puts a checksum and the position into every block", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("what is written in order is read back in order and at random", async () => {
    const bytes = SIZE_MIB << 20;
    {
      await using mount = await mountBucket(bucket);
      const options = { ...ALL, rw: "write", do_verify: 0, create_on_open: 1 };
      const jobs = await fio(mount.dir, options);
      for (const { write } of jobs) assert.equal(write.io_bytes, bytes);
      assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    }
    assert.equal((await bucket.keys()).length, JOBS);
    assert.equal(await bucket.unfinishedUploads(), 0);
    await using mount = await mountBucket(bucket); // the kernel remembers nothing of its files
    assert.equal((await readdir(mount.dir)).length, JOBS);
    for (const { read } of await fio(mount.dir, { ...ALL, rw: "read" })) {
      assert.equal(read.io_bytes, bytes);
    }
    await using cold = await mountBucket(bucket);
    const random = { ...ALL, rw: "randread", direct: 1 };
    for (const { read } of await fio(cold.dir, { ...random, io_size: `${SIZE_MIB / 2}m` })) {
      assert.equal(read.io_bytes, bytes / 2);
    }
  });

  test("a block that is not as it was written is seen", async () => {
    const key = (await bucket.keys())[0] ?? "";
    const content = await bucket.get(key);
    content.writeUInt8(content.readUInt8(5_000_000) ^ 1, 5_000_000);
    await bucket.put(key, content);
    await using mount = await mountBucket(bucket);
    await assert.rejects(fio(mount.dir, { ...ALL, rw: "read" }), /crc32c: verify failed/);
  });
});
