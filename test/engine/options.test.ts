import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

describe("options of a mount", () => {
  let bucket: TestBucket;

  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("file", "content");
    await bucket.put("team/a/file", "of team a");
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("by default nothing is deleted or replaced", async () => {
    await using mount = await mountBucket(bucket);
    const path = join(mount.dir, "file");
    await assert.rejects(fs.unlink(path), code("EPERM"));
    await assert.rejects(fs.writeFile(path, "other"), code("EPERM"));
    await fs.writeFile(join(mount.dir, "fresh"), "new files are fine");
    assert.equal((await bucket.get("file")).toString(), "content");
  });

  test("a read-only mount refuses every change", async () => {
    await using mount = await mountBucket(bucket, ["--read-only", "--allow-delete"]);
    await assert.rejects(fs.writeFile(join(mount.dir, "x"), ""), code("EROFS"));
    await assert.rejects(fs.unlink(join(mount.dir, "file")), code("EROFS"));
    await assert.rejects(fs.mkdir(join(mount.dir, "d")), code("EROFS"));
    assert.equal(await fs.readFile(join(mount.dir, "file"), "utf8"), "content");
  });

  test("a prefix is the root, owners and modes are as given", async () => {
    const args = ["--prefix", "team/a/", "--uid", "1234", "--gid", "55", "--file-mode", "0640"];
    await using mount = await mountBucket(bucket, [...args, "--dir-mode", "0750", "--allow-other"]);
    assert.deepEqual(await fs.readdir(mount.dir), ["file"]);
    const stat = await fs.stat(join(mount.dir, "file"));
    assert.deepEqual([stat.uid, stat.gid, stat.mode], [1234, 55, 0o100640]);
    assert.equal((await fs.stat(mount.dir)).mode, 0o040750);
    await fs.writeFile(join(mount.dir, "new"), "x");
    assert((await bucket.keys()).includes("team/a/new"));
  });

  // prettier-ignore
  const failing: [name: string, args: string[], env: Record<string, string>, says: RegExp][] = [
    ["a bucket that is not there", ["no-such-bucket", "/mnt"], {}, /bucket no-such-bucket at http.*NoSuchBucket/],
    ["a key that is not known",    ["test-bucket", "/mnt"], { AWS_ACCESS_KEY_ID: "nobody" }, /bucket test-bucket at .*(InvalidAccessKeyId|AccessDenied|UserNotFound)/],
    ["a wrong secret",             ["test-bucket", "/mnt"], { AWS_SECRET_ACCESS_KEY: "wrong" }, /SignatureDoesNotMatch/],
    ["an endpoint that is away",   ["test-bucket", "/mnt", "--endpoint-url", "http://127.0.0.1:9"], {}, /at http:\/\/127\.0\.0\.1:9: can't reach the endpoint 127\.0\.0\.1:9: .*ECONNREFUSED/],
    ["an endpoint that is silent", ["test-bucket", "/mnt", "--endpoint-url", "http://203.0.113.1:81"], {}, /at http:\/\/203\.0\.113\.1:81: /],
    ["no credentials",             ["test-bucket", "/mnt"], { AWS_ACCESS_KEY_ID: "" }, /no credentials/],
    ["an option that is not one",  ["test-bucket", "/mnt", "--turbo"], {}, /Unknown option '--turbo'/],
    ["a directory that is not",    ["test-bucket", "/no/such/dir"], {}, /can't mount at \/no\/such\/dir: .*ENOENT/],
  ];

  for (const [name, args, env, says] of failing) {
    test(`${name}: status 1 and one line that says so, within seconds`, async () => {
      const startedMs = performance.now();
      const environment = { ...engineEnvironment(bucket), ...env };
      await using engine = new EngineProcess(args, environment);
      const { status, stderr } = await engine.ended;
      assert.equal(status, 1);
      assert.match(stderr, says);
      assert.equal(stderr.trimEnd().split("\n").length, 1);
      assert(!stderr.includes(bucket.access.secretAccessKey));
      assert(performance.now() - startedMs < 7_000);
    });
  }
});
