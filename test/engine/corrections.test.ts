import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Secret } from "../../src/base/secret.ts";
import { fixedCredentials } from "../../src/s3/credentials.ts";
import { locate } from "../../src/s3/s3-location.ts";
import { S3Transport } from "../../src/s3/s3-transport.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const REGION = "eu-somewhere";
const HOUR_MS = 3_600_000;

describe("what S3 corrects, in a region that is not the default one", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start(() => startS3Server({ region: REGION }));
    await bucket.put("file", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("the bucket's region is detected, also by an engine that takes over", async () => {
    await using mount = await mountBucket(bucket);
    assert.equal(await fs.readFile(join(mount.dir, "file"), "utf8"), "content");
    await fs.writeFile(join(mount.dir, "written"), "x");
    const pid = mount.engine.servingPid;
    assert(pid !== undefined);
    process.kill(pid, "SIGKILL");
    await fs.writeFile(join(mount.dir, "after"), "y");
    assert.equal((await bucket.get("after")).toString(), "y");
  });

  test("a region that was asked for and is wrong is an error that names the right one", async () => {
    const args = [bucket.name, "/mnt", "--region", "us-east-1"];
    await using engine = new EngineProcess(args, engineEnvironment(bucket));
    const { status, stderr } = await engine.ended;
    assert.equal(status, 2);
    assert.match(stderr, new RegExp(`use region ${REGION}`));
  });

  for (const aheadMs of [HOUR_MS, -HOUR_MS]) {
    test(`a clock that is off by ${aheadMs / HOUR_MS} h is corrected`, async () => {
      const { endpoint, accessKeyId, secretAccessKey } = bucket.access;
      const name = { bucket: bucket.name, region: REGION };
      const secret = new Secret(secretAccessKey);
      const transport = new S3Transport({
        location: locate({ ...name, endpointUrl: endpoint, forcePathStyle: true }),
        credentials: fixedCredentials({
          accessKeyId,
          secretAccessKey: secret,
          sessionToken: undefined,
        }),
        ca: undefined,
        userAgent: "test",
        connectionsMax: 1,
        connectTimeoutMs: 3_000,
        silenceLimitMs: 5_000,
        signsPayload: false,
        extraHeaders: {},
        clock: () => Date.now() + aheadMs,
      });
      using _ = { [Symbol.dispose]: () => transport.close() };
      const signal = AbortSignal.timeout(10_000);
      for (const method of ["HEAD", "GET"] as const) {
        assert.equal((await transport.send({ method, key: "file" }, signal)).status, 200);
      }
    });
  }

  test("a proxy may rewrite headers that say nothing about the request", async () => {
    await using proxy = await FaultProxy.start(bucket.access.endpoint, ({ headers }) => {
      headers["user-agent"] = "rewritten";
      headers["accept-encoding"] = "identity";
      headers["via"] = "1.1 proxy";
      return undefined;
    });
    await using mount = await mountBucket(bucket, ["--endpoint-url", proxy.url]);
    await fs.writeFile(join(mount.dir, "through"), "z");
    assert.equal(await fs.readFile(join(mount.dir, "through"), "utf8"), "z");
  });

  test("content types by extension, from the address of an interface", async () => {
    const args = ["--infer-content-type", "--bind", "lo", "--region", REGION];
    await using mount = await mountBucket(bucket, [...args, "--part-size=5242880"]);
    await fs.writeFile(join(mount.dir, "small.html"), "x");
    await fs.writeFile(join(mount.dir, "large.png"), Buffer.alloc(6 << 20));
    await fs.writeFile(join(mount.dir, "unknown"), "x");
    assert.equal(await bucket.contentType("small.html"), "text/html");
    assert.equal(await bucket.contentType("large.png"), "image/png");
    assert.doesNotMatch((await bucket.contentType("unknown")) ?? "", /^(text|image)\//);
  });
});
