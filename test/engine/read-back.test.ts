import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { mountBucket } from "./engine-process.ts";
import { TcpGate } from "./tcp-gate.ts";
import { TestBucket } from "./test-bucket.ts";

const SMALL_MAX = 128 * 1024;

describe("a file that was written here is read back", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  async function mountThrough(gate: TcpGate, ...more: string[]) {
    const args = ["--allow-delete", "--allow-overwrite", "--outage-limit", "1", ...more];
    const mount = await mountBucket(bucket, args, { AWS_ENDPOINT_URL: gate.url });
    const at = (name: string) => join(mount.dir, name);
    return { at, [Symbol.asyncDispose]: () => mount[Symbol.asyncDispose]() };
  }

  test("when it is small, without S3: written once, twice, after it was deleted", async () => {
    await using gate = await TcpGate.start(bucket.access.endpoint);
    await using mount = await mountThrough(gate, "--metadata-ttl", "300");
    const sizes = [1, 4095, 4096, 4097, SMALL_MAX - 1, SMALL_MAX];
    const contents = new Map(sizes.map((size) => [`f${size}`, randomBytes(size)]));
    for (const [name, bytes] of contents) {
      await fs.writeFile(mount.at(name), randomBytes(bytes.length + 5000));
      if (bytes.length % 2 === 0) await fs.rm(mount.at(name));
      await fs.writeFile(mount.at(name), bytes);
    }
    await gate.shut();
    for (const [name, bytes] of contents) {
      assert((await fs.readFile(mount.at(name))).equals(bytes), name);
    }
    await gate.open();
    for (const [name, bytes] of contents) assert((await bucket.get(name)).equals(bytes), name);
  });

  for (const sizeBytes of [9_000, SMALL_MAX + 9_000]) {
    test(`with all of its ${sizeBytes} bytes when it was synced before its end`, async () => {
      await using gate = await TcpGate.start(bucket.access.endpoint);
      await using mount = await mountThrough(gate);
      const bytes = randomBytes(sizeBytes);
      const path = mount.at(`synced-${sizeBytes}`);
      await using file = await fs.open(path, "w");
      for (const [from, to] of [
        [0, 5_000],
        [5_000, 6_000],
        [6_000, sizeBytes],
      ] as const) {
        await file.write(bytes, from, to - from);
        await file.sync(); // what is so far becomes an object, and is what a reader would see
      }
      await file.close();
      assert((await fs.readFile(path)).equals(bytes), "as read");
      assert((await bucket.get(`synced-${sizeBytes}`)).equals(bytes), "as stored");
    });
  }

  test("not when others have replaced it since", async () => {
    await using gate = await TcpGate.start(bucket.access.endpoint);
    await using mount = await mountThrough(gate, "--metadata-ttl", "0");
    await fs.writeFile(mount.at("shared"), "written here");
    assert.equal(await fs.readFile(mount.at("shared"), "utf8"), "written here");
    await bucket.put("shared", "then by them");
    assert.equal(await fs.readFile(mount.at("shared"), "utf8"), "then by them");
  });
});
