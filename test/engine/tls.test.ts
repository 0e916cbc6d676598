import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { readSlowly } from "./slow-reader.ts";
import { SecretVolume } from "../node/secret-volume.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { TestBucket } from "./test-bucket.ts";
import { TlsFront } from "./tls-front.ts";

test("a bucket behind TLS is read and written with its CA, and refused without", async () => {
  await using bucket = await TestBucket.start();
  const listen = { host: "localhost", port: 0 };
  await using front = await TlsFront.start(bucket.access.endpoint, "localhost", listen);
  const bytes = randomBytes(20_000_000);
  const long = randomBytes(64 << 20);
  await bucket.put("file", bytes);
  await bucket.put("long", long);
  {
    const args = ["--endpoint-url", front.url, "--ca-bundle", front.ca];
    await using mount = await mountBucket(bucket, args);
    assert.deepEqual(await fs.readFile(join(mount.dir, "file")), bytes);
    await fs.writeFile(join(mount.dir, "copy"), bytes);
    assert.deepEqual(await bucket.get("copy"), bytes);
    assert((await readSlowly(join(mount.dir, "long"))).equals(long));
  }
  const args = [bucket.name, "/mnt", "--endpoint-url", front.url];
  await using engine = new EngineProcess(args, engineEnvironment(bucket));
  const { status, stderr } = await engine.ended;
  assert.equal(status, 5);
  assert.match(stderr, /can't reach the endpoint localhost:\d+: .*certificate/);
});

// prettier-ignore
const trusts: [name: string, args: (bundle: string) => string[], env: (bundle: string) => NodeJS.ProcessEnv][] = [
  ["--ca-bundle",         (bundle) => ["--ca-bundle", bundle], () => ({})],
  ["NODE_EXTRA_CA_CERTS", () => [],                            (bundle) => ({ NODE_EXTRA_CA_CERTS: bundle })],
];
for (const [name, args, env] of trusts) {
  test(`a running engine trusts the certificates that ${name} has by now, and no earlier ones`, async () => {
    await using bucket = await TestBucket.start();
    await using front = await TlsFront.start(bucket.access.endpoint, "localhost", {
      host: "localhost",
      port: 0,
    });
    await using dir = await temporaryDirectory();
    const volume = new SecretVolume(join(dir.path, "ca"));
    const trust = async (ca: string) => {
      volume.update({ "ca-bundle.crt": await fs.readFile(ca, "utf8") });
    };
    await trust(front.ca);
    const bundle = join(volume.path, "ca-bundle.crt");
    const words = ["--endpoint-url", front.url, "--outage-limit", "1", ...args(bundle)];
    await using mount = await mountBucket(bucket, words, env(bundle));
    const reads = async (key: string) => {
      await bucket.put(key, key);
      assert.equal(await fs.readFile(join(mount.dir, key), "utf8"), key);
    };
    await reads("first");
    const second = await front.renew();
    await assert.rejects(reads("with the first authority"), { code: "EIO" });
    await trust(second);
    await reads("second");
    volume.update({ "ca-bundle.crt": "spoilt" });
    const third = await front.renew();
    await trust(third);
    await reads("third");
  });
}
