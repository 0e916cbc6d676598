import assert from "node:assert/strict";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { S3Server } from "../../tools/stack/s3-server.ts";
import { S3_SERVERS } from "../../tools/stack/s3-servers.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const MARK = Buffer.from("a mark in the content");

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

/** On the way to S3: the first `times` marks that pass lose a bit. */
async function damagingProxy(endpoint: string, times: number) {
  const { hostname, port } = new URL(endpoint);
  let left = times;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    client.on("data", (data: Buffer) => {
      const at = left > 0 ? data.indexOf(MARK) : -1;
      if (at !== -1) {
        left -= 1;
        data.writeUInt8(data.readUInt8(at) ^ 1, at);
      }
      upstream.write(data);
    });
    upstream.pipe(client);
    for (const socket of [client, upstream]) {
      socket.on("error", () => undefined);
      socket.on("close", () => [client, upstream].map((either) => either.destroy()));
    }
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(address !== null && typeof address === "object");
  return {
    url: `http://127.0.0.1:${address.port}`,
    get damaged() {
      return times - left;
    },
    [Symbol.dispose]: () => void server.close(),
  };
}

for (const [server, startServer] of Object.entries(S3_SERVERS)) {
  describe(`bytes damaged on their way to ${server}`, () => damage(startServer));
}

function damage(startServer: () => Promise<S3Server>): void {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start(startServer);
  });
  after(() => bucket[Symbol.asyncDispose]());

  for (const algorithm of ["crc32", "crc32c", "sha256"]) {
    for (const [name, sizeBytes] of [
      ["one PUT", 1000],
      ["parts", 9_000_000],
    ] as const) {
      test(`${algorithm}, ${name}: damage once is mended, again and again is EIO`, async () => {
        const bytes = Buffer.concat([MARK, Buffer.alloc(sizeBytes, 5)]);
        for (const times of [1, 1000]) {
          using proxy = await damagingProxy(bucket.access.endpoint, times);
          const args = ["--endpoint-url", proxy.url, "--upload-checksums", algorithm];
          await using mount = await mountBucket(bucket, args, { AWS_MAX_ATTEMPTS: "2" });
          const key = `${algorithm}-${sizeBytes}-${times}`;
          const writing = fs.writeFile(join(mount.dir, key), bytes);
          if (times === 1) {
            await writing;
            assert(bytes.equals(await bucket.get(key)));
          } else {
            await assert.rejects(writing, code("EIO"));
            assert(!(await bucket.keys()).includes(key));
          }
          assert.equal(proxy.damaged, times === 1 ? 1 : 2);
        }
        assert.equal(await bucket.unfinishedUploads(), 0);
      });
    }
  }
}
