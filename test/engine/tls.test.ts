import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import tls from "node:tls";
import { promisify } from "node:util";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const SELF_SIGNED =
  "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=localhost";

/** The same server behind TLS, with a certificate that only `ca` vouches for. */
async function behindTls(endpoint: string) {
  await using owned = new AsyncDisposableStack();
  const dir = await fs.mkdtemp(join(tmpdir(), "s3csi-tls-"));
  owned.defer(() => fs.rm(dir, { recursive: true }));
  const [key, ca] = [join(dir, "key"), join(dir, "ca")];
  const san = ["-addext", "subjectAltName=DNS:localhost"];
  await run("openssl", [...SELF_SIGNED.split(" "), ...san, "-keyout", key, "-out", ca]);
  const { hostname, port } = new URL(endpoint);
  const options = { key: await fs.readFile(key), cert: await fs.readFile(ca) };
  const server = tls.createServer(options, (client) => {
    const upstream = connect({ host: hostname, port: Number(port) });
    client.pipe(upstream).pipe(client);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
  });
  server.on("tlsClientError", () => undefined);
  await once(server.listen(0, "localhost"), "listening");
  owned.defer(() => void server.close());
  const address = server.address();
  assert(address !== null && typeof address === "object");
  const all = owned.move();
  const url = `https://localhost:${address.port}`;
  return { url, ca, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

test("a bucket behind TLS is read and written with its CA, and refused without", async () => {
  await using bucket = await TestBucket.start();
  await using front = await behindTls(bucket.access.endpoint);
  const bytes = randomBytes(20_000_000);
  await bucket.put("file", bytes);
  {
    const args = ["--endpoint-url", front.url, "--ca-bundle", front.ca];
    await using mount = await mountBucket(bucket, args);
    assert.deepEqual(await fs.readFile(join(mount.dir, "file")), bytes);
    await fs.writeFile(join(mount.dir, "copy"), bytes);
    assert.deepEqual(await bucket.get("copy"), bytes);
  }
  const args = [bucket.name, "/mnt", "--endpoint-url", front.url];
  await using engine = new EngineProcess(args, engineEnvironment(bucket));
  const { status, stderr } = await engine.ended;
  assert.equal(status, 5);
  assert.match(stderr, /can't reach the endpoint localhost:\d+: .*certificate/);
});
