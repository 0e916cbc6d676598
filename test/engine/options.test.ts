import assert from "node:assert/strict";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const SILENT = "an endpoint that accepts and never answers";

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

describe("options of a mount", () => {
  let bucket: TestBucket;
  const silent = createServer(() => undefined);

  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("file", "content");
    await bucket.put("team/a/file", "of team a");
  });
  before(() => once(silent.listen(0, "127.0.0.1"), "listening"));
  after(() => bucket[Symbol.asyncDispose]());
  after(() => silent.close());
  const silentUrl = () => {
    const address = silent.address();
    return typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "";
  };

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

  test("keys of a profile are rotated by writing the file", async () => {
    await using home = await fs.mkdtempDisposable(join(tmpdir(), "s3csi-home-"));
    const file = join(home.path, "keys");
    const { accessKeyId, secretAccessKey } = bucket.access;
    const write = (secret: string) =>
      fs.writeFile(
        file,
        `[rotating]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secret}\n`,
      );
    await write(secretAccessKey);
    const env = { AWS_SHARED_CREDENTIALS_FILE: file, AWS_SECRET_ACCESS_KEY: "not this one" };
    await using mount = await mountBucket(bucket, ["--profile", "rotating"], env);
    assert.equal(await fs.readFile(join(mount.dir, "file"), "utf8"), "content");
    await write("outdated");
    await delay(1_100);
    await assert.rejects(fs.readFile(join(mount.dir, "team/a/file")), code("EACCES"));
    await write(secretAccessKey);
    assert.equal(await fs.readFile(join(mount.dir, "team/a/file"), "utf8"), "of team a");
  });

  test("a log directory gets a file, and nothing goes to stdout", async () => {
    await using logs = await fs.mkdtempDisposable(join(tmpdir(), "s3csi-logs-"));
    const args = ["no-such-bucket", "/mnt", "--log-directory", logs.path, "--max-threads=2"];
    await using engine = new EngineProcess(args, engineEnvironment(bucket));
    await engine.ended;
    const names = await fs.readdir(logs.path);
    const texts = await Promise.all(
      names.map((name) => fs.readFile(join(logs.path, name), "utf8")),
    );
    assert.match(texts.join(""), /--max-threads.*without effect/);
  });

  // prettier-ignore
  const failing: [name: string, args: string[], env: Record<string, string>, status: number, says: RegExp][] = [
    ["a bucket that is not there", ["no-such-bucket", "/mnt"], {}, 3, /bucket no-such-bucket at http.*NoSuchBucket/],
    ["a key that is not known",    ["test-bucket", "/mnt"], { AWS_ACCESS_KEY_ID: "nobody" }, 4, /bucket test-bucket at .*(InvalidAccessKeyId|AccessDenied|UserNotFound)/],
    ["a wrong secret",             ["test-bucket", "/mnt"], { AWS_SECRET_ACCESS_KEY: "wrong" }, 4, /SignatureDoesNotMatch/],
    ["an endpoint that is away",   ["test-bucket", "/mnt", "--endpoint-url", "http://127.0.0.1:9"], {}, 5, /at http:\/\/127\.0\.0\.1:9: can't reach the endpoint 127\.0\.0\.1:9: .*ECONNREFUSED/],
    ["an endpoint that is silent", ["test-bucket", "/mnt", "--endpoint-url", SILENT], {}, 5, /at http:\/\/127\.0\.0\.1:\d+: no answer within 5 s/],
    ["no credentials",             ["test-bucket", "/mnt"], { AWS_ACCESS_KEY_ID: "" }, 4, /no credentials/],
    ["an option that is not one",  ["test-bucket", "/mnt", "--turbo"], {}, 2, /Unknown option '--turbo'/],
    ["a directory that is not",    ["test-bucket", "/no/such/dir"], {}, 2, /can't mount at \/no\/such\/dir: .*ENOENT/],
    ["another region",             ["test-bucket", "/mnt", "--region", "eu-nowhere"], {}, 2, /region/],
    ["a profile without keys",     ["test-bucket", "/mnt", "--profile", "nobody"], { HOME: "/no" }, 4, /profile nobody: no access key in \/no\/.aws\/credentials/],
  ];

  for (const [name, args, env, expected, says] of failing) {
    test(`${name}: status ${expected} and one line that says so, within seconds`, async () => {
      const startedMs = performance.now();
      const environment = { ...engineEnvironment(bucket), ...env };
      await using engine = new EngineProcess(
        args.map((word) => (word === SILENT ? silentUrl() : word)),
        environment,
      );
      const { status, stderr } = await engine.ended;
      assert.equal(status, expected);
      assert.match(stderr, says);
      assert.equal(stderr.trimEnd().split("\n").length, 1);
      assert(!stderr.includes(bucket.access.secretAccessKey));
      assert(performance.now() - startedMs < 7_000);
    });
  }
});
