import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";
import { TlsFront } from "./tls-front.ts";

const DOMAIN = "s3.us-east-1.amazonaws.com";
const HTTPS_PORT = 443;

/** What an entry in /etc/hosts would do, for one process. */
function hostsEntry(name: string, address: string): string {
  const code = `import dns from "node:dns";
    const { lookup } = dns;
    dns.lookup = (host, options, done) =>
      lookup(host === ${JSON.stringify(name)} ? ${JSON.stringify(address)} : host, options, done);`;
  return `--import=data:text/javascript,${encodeURIComponent(code)}`;
}

test("a bucket in the host name: Host and signature are right for reads, writes and lists", async () => {
  await using bucket = await TestBucket.start();
  const host = `${bucket.name}.${DOMAIN}`;
  const { hostname: address } = new URL(bucket.access.endpoint);
  await using front = await TlsFront.start(bucket.access.endpoint, host, {
    host: address,
    port: HTTPS_PORT,
  });
  const env = { AWS_ENDPOINT_URL: undefined, NODE_OPTIONS: hostsEntry(host, address) };
  const args = ["--region", "us-east-1", "--ca-bundle", front.ca, "--allow-delete"];
  await using mount = await mountBucket(bucket, args, env);
  const at = (name: string) => join(mount.dir, name);

  const bytes = randomBytes(20_000_000);
  await fs.mkdir(at("dir"));
  await fs.writeFile(at("dir/ünï +%20"), bytes);
  assert.deepEqual(await bucket.get("dir/ünï +%20"), bytes);
  await bucket.put("elsewhere", bytes);
  assert.deepEqual(await fs.readFile(at("elsewhere")), bytes);
  assert.deepEqual(await fs.readdir(at("")), ["dir", "elsewhere"]);
  await fs.unlink(at("elsewhere"));
  assert.deepEqual(await bucket.keys(), ["dir/ünï +%20"]);

  assert(front.requests.length > 5, "the requests went elsewhere");
  for (const head of front.requests) {
    assert.match(head, new RegExp(`^host: ${host.replaceAll(".", "\\.")}\r$`, "im"));
    const [, path = ""] = head.split(" ");
    assert(!path.startsWith(`/${bucket.name}`), `the bucket is in the path too: ${path}`);
  }
});
