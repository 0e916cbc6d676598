import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, test } from "node:test";
import * as s3 from "@aws-sdk/client-s3";
import { Secret } from "../../src/base/secret.ts";
import { encodeKey, Signer, UNSIGNED_PAYLOAD } from "../../src/s3/sign.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import type { S3Access, S3Server } from "../../tools/stack/s3-server.ts";
import { startScalityServer } from "../../tools/stack/scality-server.ts";

const Bucket = "profile";
const WRONG_CRC32 = "AAAAAA==";
const md5 = (text: string) => createHash("md5").update(text).digest("base64");

describe("the server that behaves as Scality's", () => {
  let server: S3Server;
  let client: s3.S3Client;
  before(async () => {
    server = await startScalityServer();
    client = clientOf(server);
    await client.send(new s3.CreateBucketCommand({ Bucket }));
  });
  after(async () => {
    client.destroy();
    await server[Symbol.asyncDispose]();
  });

  const put = (Key: string, Body: string, more: Partial<s3.PutObjectCommandInput> = {}) =>
    client.send(new s3.PutObjectCommand({ Bucket, Key, Body, ...more }));
  const text = async (Key: string) => {
    const { Body } = await client.send(new s3.GetObjectCommand({ Bucket, Key }));
    return Body?.transformToString();
  };

  test("a wrong checksum is stored and not answered, a wrong Content-MD5 is BadDigest", async () => {
    const stored = await put("sum", "body", { ChecksumCRC32: WRONG_CRC32 });
    assert.equal(await text("sum"), "body");
    assert.equal(stored.ChecksumCRC32, undefined);
    assert.equal(stored.ETag, `"${createHash("md5").update("body").digest("hex")}"`);
    const refused = put("md5", "body", { ContentMD5: md5("other") });
    await assert.rejects(refused, { name: "BadDigest" });
    await put("md5", "body", { ContentMD5: md5("body") });
  });

  test("a write ignores If-None-Match and If-Match, a read honours them", async () => {
    await put("condition", "one");
    await put("condition", "two", { IfNoneMatch: "*" });
    await put("condition", "three", { IfMatch: '"00000000000000000000000000000000"' });
    assert.equal(await text("condition"), "three");
    const IfMatch = '"00000000000000000000000000000000"';
    const get = client.send(new s3.GetObjectCommand({ Bucket, Key: "condition", IfMatch }));
    await assert.rejects(get, { name: "PreconditionFailed" });
    await client.send(new s3.DeleteObjectCommand({ Bucket, Key: "condition", IfMatch }));
    await assert.rejects(text("condition"), { name: "NoSuchKey" });
  });

  test("a listing of uploads encodes keys and does not say so; a late part is NoSuchKey", async () => {
    const Key = "dir/a b+c%";
    const begun = await client.send(
      new s3.CreateMultipartUploadCommand({ Bucket, Key, ChecksumAlgorithm: "CRC32" }),
    );
    assert.equal(begun.ChecksumAlgorithm, undefined);
    const { UploadId } = begun;
    const list = (EncodingType?: "url") =>
      client.send(new s3.ListMultipartUploadsCommand({ Bucket, EncodingType }));
    assert.equal((await list()).Uploads?.[0]?.Key, Key);
    const encoded = await list("url");
    assert.equal(encoded.EncodingType, undefined);
    assert.equal(encoded.Uploads?.[0]?.Key, "dir%2Fa%20b%2Bc%25");
    const part = { Bucket, Key, UploadId, PartNumber: 1 };
    const { ETag } = await client.send(new s3.UploadPartCommand({ ...part, Body: "part" }));
    const Parts = [{ PartNumber: 1, ETag, ChecksumCRC32: WRONG_CRC32 }];
    const MultipartUpload = { Parts };
    await client.send(
      new s3.CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload }),
    );
    assert.equal(await text(Key), "part");
    const late = client.send(new s3.UploadPartCommand({ ...part, Body: "late" }));
    await assert.rejects(late, { name: "NoSuchKey" });
  });

  test("a copy of a range that ends behind its source copies what there is", async () => {
    await put("source", "ten bytes.");
    const Key = "copy";
    const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key }));
    const copied = await client.send(
      new s3.UploadPartCopyCommand({
        Bucket,
        Key,
        UploadId,
        PartNumber: 1,
        CopySource: `${Bucket}/source`,
        CopySourceRange: "bytes=4-99",
      }),
    );
    const Parts = [{ PartNumber: 1, ETag: copied.CopyPartResult?.ETag }];
    const MultipartUpload = { Parts };
    await client.send(
      new s3.CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload }),
    );
    assert.equal(await text(Key), "bytes.");
  });

  test("LastModified has milliseconds in a listing and whole seconds in a HEAD", async () => {
    await put("time", "now");
    const { Contents } = await client.send(new s3.ListObjectsV2Command({ Bucket, Prefix: "time" }));
    const { LastModified } = await client.send(new s3.HeadObjectCommand({ Bucket, Key: "time" }));
    assert.equal(Contents?.[0]?.LastModified?.getMilliseconds(), 789);
    assert.equal(LastModified?.getMilliseconds(), 0);
  });

  test("a key above 915 bytes is KeyTooLong, and a HEAD of it 400 without a reason", async () => {
    const directories = Array.from({ length: 4 }, () => "é".repeat(113)).join("/");
    const [short, long] = [`${directories}/1234567`, `${directories}/12345678`];
    assert.equal(Buffer.byteLength(short), 915);
    await assert.rejects(put(long, "x"), { name: "KeyTooLong" });
    const head = client.send(new s3.HeadObjectCommand({ Bucket, Key: long }));
    await assert.rejects(head, (error) => {
      return error instanceof s3.S3ServiceException && error.$metadata.httpStatusCode === 400;
    });
    await assert.rejects(text(short), { name: "NoSuchKey" });
  });

  test("an expected bucket owner is ignored", async () => {
    await put("owner", "x", { ExpectedBucketOwner: "111122223333" });
  });

  const wrong: [what: string, change: Partial<S3Access>, name: string][] = [
    ["a wrong secret key", { secretAccessKey: "wrong" }, "SignatureDoesNotMatch"],
    ["an unknown access key", { accessKeyId: "unknown" }, "InvalidAccessKeyId"],
  ];
  for (const [what, change, name] of wrong) {
    test(`a read or write with ${what} is refused`, async () => {
      const other = clientOf({ ...server, ...change });
      const Key = `kept with ${what}`;
      await put(Key, "before");
      const object = { Bucket, Key };
      const begin = new s3.CreateMultipartUploadCommand({ ...object, ChecksumAlgorithm: "CRC32" });
      const { UploadId } = await client.send(begin);
      const upload = { ...object, UploadId };
      const Parts = [{ PartNumber: 1, ETag: "etag", ChecksumCRC32: WRONG_CRC32 }];
      const complete = { ...upload, MultipartUpload: { Parts } };
      const IfMatch = '"00000000000000000000000000000000"';
      const refused: Promise<unknown>[] = [
        other.send(new s3.GetObjectCommand(object)),
        other.send(new s3.PutObjectCommand({ ...object, Body: "after", IfMatch })),
        other.send(new s3.DeleteObjectCommand({ ...object, IfMatch })),
        other.send(new s3.DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key }] } })),
        other.send(begin),
        other.send(new s3.UploadPartCommand({ ...upload, PartNumber: 1, Body: "part" })),
        other.send(new s3.CompleteMultipartUploadCommand(complete)),
      ];
      await Promise.all(refused.map((one) => assert.rejects(one, { name })));
      assert.equal(await text(Key), "before");
      other.destroy();
    });
  }

  test("a write that the engine's own signer has signed is accepted with a wrong checksum", async () => {
    const key = "odd/ä b+c~*'()";
    const body = "signed by the engine";
    const signed = signerOf(server).sign(
      {
        method: "PUT",
        path: `/${Bucket}/${encodeKey(key)}`,
        query: "",
        headers: { host: new URL(server.endpoint).host, "x-amz-checksum-crc32": WRONG_CRC32 },
        payloadSha256: UNSIGNED_PAYLOAD,
      },
      Date.now(),
    );
    const url = `${server.endpoint}/${Bucket}/${encodeKey(key)}`;
    const answer = await fetch(url, { method: "PUT", headers: signed, body });
    assert.equal(answer.status, 200, await answer.text());
    assert.equal(await text(key), body);
  });
});

function signerOf({ accessKeyId, secretAccessKey, region }: S3Access): Signer {
  const secret = new Secret(secretAccessKey);
  return new Signer({ accessKeyId, secretAccessKey: secret, sessionToken: undefined }, region);
}
