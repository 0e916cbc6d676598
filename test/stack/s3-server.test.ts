import assert from "node:assert/strict";
import { test } from "node:test";
import { CreateBucketCommand, ListBucketsCommand, S3Client } from "@aws-sdk/client-s3";
import type { S3Access } from "../../tools/stack/s3-server.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";

const START_LIMIT_MS = 1000;

test("two S3 servers run at once, each on an address and a directory of its own", async () => {
  const startedMs = performance.now();
  await using one = await startS3Server();
  const tookMs = performance.now() - startedMs;
  await using two = await startS3Server();
  assert.notEqual(one.endpoint, two.endpoint);
  await clientOf(one).send(new CreateBucketCommand({ Bucket: "only-in-one" }));
  assert.deepEqual(await bucketsOf(one), ["only-in-one"]);
  assert.deepEqual(await bucketsOf(two), []);
  assert(tookMs < START_LIMIT_MS, `started in ${tookMs} ms`);
});

test("a wrong key is refused: the server checks signatures", async () => {
  await using s3 = await startS3Server();
  const credentials = { accessKeyId: s3.accessKeyId, secretAccessKey: "wrong" };
  const client = new S3Client({
    endpoint: s3.endpoint,
    region: s3.region,
    credentials,
    forcePathStyle: true,
  });
  await assert.rejects(client.send(new ListBucketsCommand({})), { name: "SignatureDoesNotMatch" });
});

async function bucketsOf(s3: S3Access): Promise<(string | undefined)[]> {
  const { Buckets = [] } = await clientOf(s3).send(new ListBucketsCommand({}));
  return Buckets.map((bucket) => bucket.Name);
}
