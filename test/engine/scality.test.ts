import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { startScalityServer } from "../../tools/stack/scality-server.ts";
import { mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { RewritingProxy } from "./rewriting-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const MIB = 1 << 20;
const PART_BYTES = 5 * MIB;
const NAME = "n".repeat(228);
/** Three directories of 228 bytes and a name that fills the key up to the server's 915 bytes. */
const DEEP = [NAME, NAME, NAME].join("/");

const isBegin = ({ method, url = "" }: IncomingMessage) =>
  method === "POST" && url.includes("?uploads");

describe("on a server that behaves as Scality's", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start(startScalityServer);
  });
  after(() => bucket[Symbol.asyncDispose]());

  for (const name of ["plain", "dir/below", "dir/a b+c%20é&"]) {
    test(`a lost answer to the begin of an upload of ${name} leaves no upload`, async () => {
      let left = 1;
      const decide = (request: IncomingMessage) =>
        isBegin(request) && left-- > 0 ? ("lose the answer" as const) : undefined;
      await using proxy = await FaultProxy.start(bucket.access.endpoint, decide);
      const args = ["--endpoint-url", proxy.url, "--part-size", String(PART_BYTES)];
      await using mount = await mountBucket(bucket, args);
      await fs.mkdir(join(mount.dir, "dir"), { recursive: true });
      const bytes = Buffer.alloc(PART_BYTES + 1, 7);
      await fs.writeFile(join(mount.dir, name), bytes);
      assert(bytes.equals(await bucket.get(name)));
      assert.equal(proxy.counts.get("lose the answer"), 1);
      assert.equal(await bucket.unfinishedUploads(), 0);
    });
  }

  test("mtime is the same by a listing and by a HEAD, and has whole seconds after a write", async () => {
    await bucket.put("times/other", "x");
    await using mount = await mountBucket(bucket);
    const { mtimeMs: byHead } = await fs.stat(join(mount.dir, "times/other"));
    await using listing = await mountBucket(bucket, ["--metadata-ttl", "60"]);
    assert.deepEqual(await fs.readdir(join(listing.dir, "times")), ["other"]);
    const { mtimeMs: byListing } = await fs.stat(join(listing.dir, "times/other"));
    assert.equal(new Date(byListing).toISOString(), new Date(byHead).toISOString());
    await fs.writeFile(join(listing.dir, "times/own"), "x");
    assert.equal((await fs.stat(join(listing.dir, "times/own"))).mtimeMs % 1000, 0);
  });

  test("a key above the server's limit is ENAMETOOLONG, the longest one is a file", async () => {
    await using mount = await mountBucket(bucket);
    await fs.mkdir(join(mount.dir, DEEP), { recursive: true });
    const longest = `${DEEP}/${"k".repeat(915 - DEEP.length - 1)}`;
    await fs.writeFile(join(mount.dir, longest), "fits");
    assert.equal((await bucket.get(longest)).toString(), "fits");
    const above = join(mount.dir, `${longest}k`);
    for (const attempt of [
      () => fs.writeFile(above, "x"),
      () => fs.stat(above),
      () => fs.readFile(above),
      () => fs.mkdir(above),
    ]) {
      await assert.rejects(attempt, { code: "ENAMETOOLONG" });
    }
    const keys = await bucket.keys();
    assert.deepEqual(
      keys.filter((key) => key.startsWith(DEEP)),
      [longest],
    );
  });

  test("an upload that another client has ended is EIO, and no object appears", async () => {
    await using proxy = await RewritingProxy.start(bucket.access.endpoint);
    const { promise: firstPart, resolve } = Promise.withResolvers<void>();
    proxy.rewrite = ({ method, url = "" }, answer) => {
      if (method === "PUT" && url.includes("partNumber=1&")) resolve();
      return answer;
    };
    const args = ["--endpoint-url", proxy.url, "--part-size", String(PART_BYTES)];
    await using mount = await mountBucket(bucket, args);
    const file = await fs.open(join(mount.dir, "ended"), "w");
    await file.write(Buffer.alloc(PART_BYTES, 1));
    await firstPart;
    assert.equal(await bucket.abortUploads(), 1);
    await file.write(Buffer.alloc(PART_BYTES, 2));
    await assert.rejects(file.close(), { code: "EIO" });
    assert(!(await bucket.keys()).includes("ended"));
    assert.equal(await bucket.unfinishedUploads(), 0);
  });

  test("--expected-bucket-owner is refused, since this server does not check it", async () => {
    await assert.rejects(async () => {
      await using _ = await mountBucket(bucket, ["--expected-bucket-owner", "111122223333"]);
    }, /--expected-bucket-owner 111122223333: .* does not check/);
  });
});

test("a server that checks the owner of a bucket serves --expected-bucket-owner", async () => {
  await using bucket = await TestBucket.start(startS3Server);
  const { accessKeyId } = bucket.access; // the name of an account there
  await using mount = await mountBucket(bucket, ["--expected-bucket-owner", accessKeyId]);
  await fs.writeFile(join(mount.dir, "own"), "x");
  const other = mountBucket(bucket, ["--expected-bucket-owner", "somebody"]);
  await assert.rejects(other, /AccessDenied/);
});
