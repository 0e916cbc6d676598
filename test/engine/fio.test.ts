import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { unpackedPackages } from "../../tools/debian.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const JOBS = 4;
const SIZE_MIB = process.env["FULL"] === "1" ? 512 : 48;

/** fio, and the libraries of the many things that it could measure. */
const PACKAGES = (
  "fio libaio1 libargon2-1 libboost-iostreams1.74.0 libboost-thread1.74.0 libcryptsetup12 " +
  "libdaxctl1 libdevmapper1.02.1 libfmt9 libgfapi0 libgfrpc0 libgfxdr0 libglusterfs0 libibverbs1 " +
  "libicu72 libjson-c5 libkmod2 libnbd0 libndctl6 libnl-3-200 libnl-route-3-200 libnuma1 libpmem1 " +
  "libpmemblk1 librados2 librbd1 librdmacm1 libtirpc3 libxml2"
).split(" ");

interface FioResult {
  readonly jobs: readonly {
    readonly error: number;
    readonly read: { readonly io_bytes: number };
    readonly write: { readonly io_bytes: number };
  }[];
}

describe("fio, which puts a checksum and the position into every block", () => {
  let bucket: TestBucket;
  let root: string;
  before(async () => {
    root = await unpackedPackages("fio", PACKAGES);
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  async function fio(directory: string, options: Readonly<Record<string, string | number>>) {
    const all = {
      name: "job",
      directory,
      numjobs: JOBS,
      size: `${SIZE_MIB}m`,
      ioengine: "psync",
      fallocate: "none",
      verify: "crc32c",
      verify_fatal: 1,
      verify_state_save: 0, // it would be a file where the test runs
      "output-format": "json",
      ...options,
    };
    const args = Object.entries(all).map(([name, value]) => `--${name}=${value}`);
    const libraries = globSync("{lib,usr/lib}/*-linux-gnu{,/ceph}", { cwd: root });
    const env = { LD_LIBRARY_PATH: libraries.map((path) => join(root, path)).join(":") };
    const { stdout } = await run(join(root, "usr/bin/fio"), args, { env, maxBuffer: 16 << 20 });
    const { jobs } = JSON.parse(stdout) as FioResult;
    assert.equal(jobs.length, JOBS);
    for (const { error } of jobs) assert.equal(error, 0);
    return jobs;
  }

  test("what is written in order is read back in order and at random", async () => {
    const bytes = SIZE_MIB << 20;
    {
      await using mount = await mountBucket(bucket);
      const options = { rw: "write", bs: "128k", do_verify: 0, create_on_open: 1 };
      const jobs = await fio(mount.dir, options);
      for (const { write } of jobs) assert.equal(write.io_bytes, bytes);
      assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    }
    assert.equal((await bucket.keys()).length, JOBS);
    assert.equal(await bucket.unfinishedUploads(), 0);
    await using mount = await mountBucket(bucket); // the kernel remembers nothing of its files
    assert.equal((await readdir(mount.dir)).length, JOBS);
    for (const { read } of await fio(mount.dir, { rw: "read", bs: "128k" })) {
      assert.equal(read.io_bytes, bytes);
    }
    await using cold = await mountBucket(bucket);
    const random = { rw: "randread", bs: "128k", direct: 1 };
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
    await assert.rejects(fio(mount.dir, { rw: "read", bs: "128k" }), /crc32c: verify failed/);
  });
});
