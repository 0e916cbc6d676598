import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CreateBucketCommand, ListObjectVersionsCommand } from "@aws-sdk/client-s3";
import { create } from "@bufbuild/protobuf";
import { CreateVolumeRequestSchema } from "../../src/csi/gen/csi_pb.ts";
import { RewritingProxy } from "../engine/rewriting-proxy.ts";
import type { Judge, Passing } from "../provisioner/faulty-line.ts";
import {
  AccountWorld,
  ODD_KEYS,
  RWX,
  bucketOf,
  isBucketDeletion,
  isTagging,
  requestFor,
  signal,
} from "./account-world.ts";

const oldServer: Judge = ({ method, path }) =>
  /[?&]versions(=|&|$)/.test(path) || (method === "POST" && path.includes("?delete"))
    ? "501"
    : undefined;

let world: AccountWorld;
before(async () => {
  world = await AccountWorld.start();
});
after(() => world?.[Symbol.asyncDispose]());

test("a server without ListObjectVersions and DeleteObjects: one object at a time", async () => {
  await using opened = await world.driver({ judge: oldServer });
  const { volumeId } = await opened.volumes.create(requestFor("plain", "delete"), signal);
  for (const key of ODD_KEYS) await world.put(volumeId, key);
  assert.deepEqual(await opened.remove("plain"), { kept: undefined });
  assert.equal(await world.hasBucket(volumeId), false);
});

test("a bucket with many objects is emptied call by call, each a page further", async () => {
  await using opened = await world.driver({ emptyingLimitMs: 0 });
  const { volumeId } = await opened.volumes.create(requestFor("many", "delete"), signal);
  const count = 2_100;
  const numbers = Array.from({ length: count }, (_, index) => index);
  await world.putAll(
    volumeId,
    numbers.map((number) => `dir-${number % 7}/${number}`),
  );
  const message = `bucket ${volumeId} is being emptied: it holds more than one call deletes`;
  for (let call = 0; call < 2; call += 1) {
    await assert.rejects(opened.remove("many"), { kind: "busy", message });
  }
  assert.equal((await world.keysIn(volumeId)).length, count - 2_000);
  assert.deepEqual(await opened.remove("many"), { kept: undefined });
  assert.equal(await world.hasBucket(volumeId), false);
});

function encoded(_: string, tag: string, key: string): string {
  const text = encodeURIComponent(key).replaceAll("%20", "+").replaceAll("%EF%BF%BD", "%01");
  return `<${tag}>${text}</${tag}>`;
}

/** The answer of servers that know EncodingType. versitygw lists a control character as U+FFFD. */
const listsEncoded: RewritingProxy["rewrite"] = ({ method, url = "" }, answer) => {
  if (method !== "GET" || !url.includes("encoding-type=url")) return answer;
  const body = answer.body
    .toString("utf8")
    .replaceAll(/<(Key|NextKeyMarker)>([^<]*)<\/\1>/g, encoded)
    .replaceAll(/<EncodingType>[^<]*<\/EncodingType>/g, "")
    .replace("<IsTruncated>", "<EncodingType>url</EncodingType><IsTruncated>");
  return { ...answer, body: Buffer.from(body) };
};

// prettier-ignore
const places: [what: string, parameters: Record<string, string>][] = [
  ["own bucket", { onDelete: "delete" }],
  ["prefix",     { onDelete: "delete", bucketName: "listed-encoded", prefix: "team" }],
];
for (const [what, parameters] of places) {
  test(`keys that only an encoded listing tells are deleted: ${what}`, async () => {
    await using proxy = await RewritingProxy.start(world.own.endpoint);
    proxy.rewrite = listsEncoded;
    await using opened = await world.driver({ endpoint: proxy.url });
    const { bucketName } = parameters;
    if (bucketName !== undefined) {
      await world.client.send(new CreateBucketCommand({ Bucket: bucketName }));
    }
    const name = `encoded ${what}`;
    const wish = { name, volumeCapabilities: [RWX], parameters };
    const { volumeId, volumeContext } = await opened.volumes.create(
      create(CreateVolumeRequestSchema, wish),
      signal,
    );
    const { bucketName: bucket = "", prefix = "" } = volumeContext;
    for (const key of ["a\u0001b", "a b", "a+b", "ü/é", "%41"]) {
      await world.put(bucket, `${prefix}${key}`);
    }
    const answer = await opened.volumes.delete({ volumeId, name, secrets: {} }, signal);
    assert.deepEqual(answer, { kept: undefined });
    assert.deepEqual(bucketName === undefined ? [] : await world.keysIn(bucket), []);
    assert.equal(await world.hasBucket(bucket), bucketName !== undefined);
  });
}

test("a bucket with many unfinished uploads is emptied call by call", async () => {
  await using opened = await world.driver({ emptyingLimitMs: 0 });
  const { volumeId } = await opened.volumes.create(requestFor("uploads"), signal);
  const keys = Array.from({ length: 1_001 }, (_, index) => `upload-${index}`);
  await world.beginAll(volumeId, keys);
  await assert.rejects(opened.remove("uploads"), { kind: "busy" });
  assert.equal(await world.uploadsIn(volumeId), 1);
  assert.deepEqual(await opened.remove("uploads"), { kept: undefined });
  assert.equal(await world.hasBucket(volumeId), false);
});

test("objects that may not be deleted: all others go, and the error names the first", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("locked", "delete"), signal);
  for (const key of ["locked/1", "locked/2", "free"]) await world.put(volumeId, key);
  await world.lock(volumeId, true);
  await assert.rejects(opened.remove("locked"), {
    kind: "denied",
    message: /DeleteObjects csi-s3-\S+ at http\S+: locked\/1.* and 1 more: AccessDenied/,
  });
  assert.deepEqual(await world.keysIn(volumeId), ["locked/1", "locked/2"]);
});

test("objects that may not be deleted do not keep those behind them", async () => {
  await using opened = await world.driver({ emptyingLimitMs: 0 });
  const { volumeId } = await opened.volumes.create(requestFor("front", "delete"), signal);
  const locked = Array.from({ length: 1_100 }, (_, index) => `locked/${index}`);
  await world.putAll(volumeId, ["a/free", ...locked, "z/free"]);
  await world.lock(volumeId, true);
  await assert.rejects(opened.remove("front"), { kind: "busy" });
  const message = /: locked\/\d+ .*and \d+ more: AccessDenied/;
  await assert.rejects(opened.remove("front"), { kind: "denied", message });
  assert.deepEqual(await world.keysIn(volumeId, "z/"), []);
  // The next pass begins at the front: the lock has run out.
  await world.lock(volumeId, false);
  await assert.rejects(opened.remove("front"), { kind: "busy" });
  assert.deepEqual(await opened.remove("front"), { kept: undefined });
});

test("an access key that may not delete ends the deletion with the first page", async () => {
  await using proxy = await RewritingProxy.start(world.own.endpoint);
  await using opened = await world.driver({ endpoint: proxy.url });
  const { volumeId } = await opened.volumes.create(requestFor("forbidden", "delete"), signal);
  const keys = Array.from({ length: 1_100 }, (_, index) => `locked/${index}`);
  await world.putAll(volumeId, [...keys, "z/free"]);
  await world.lock(volumeId, true);
  proxy.take();
  const rights = "grant the access key s3:DeleteObject and s3:DeleteObjectVersion on bucket";
  const message = new RegExp(`AccessDenied .*; ${rights} ${volumeId}`);
  await assert.rejects(opened.remove("forbidden"), { kind: "denied", message });
  assert.equal(proxy.take().filter((request) => request.startsWith("POST")).length, 4);
  assert.deepEqual(await world.keysIn(volumeId, "z/"), ["z/free"]);
});

/** As a server that does not know the parameter `prefix`. */
const listsAnotherTenant: RewritingProxy["rewrite"] = (_, answer) => {
  const text = answer.body.toString("utf8");
  return { ...answer, body: Buffer.from(text.replace(/<Key>[^<]*/, "<Key>other-tenant/k")) };
};

for (const [what, isListed] of [
  ["objects", (url: string) => url.includes("list-type=2")],
  ["uploads", (url: string) => url.includes("uploads")],
] as const) {
  test(`a server that lists ${what} outside the prefix deletes nothing of them`, async () => {
    const bucket = `ignored-${what}`;
    await world.client.send(new CreateBucketCommand({ Bucket: bucket }));
    await using proxy = await RewritingProxy.start(world.own.endpoint);
    proxy.rewrite = (request, answer) =>
      isListed(request.url ?? "") ? listsAnotherTenant(request, answer) : answer;
    await using opened = await world.driver({ endpoint: proxy.url });
    const parameters = { bucketName: bucket, prefix: "team", onDelete: "delete" };
    const wish = { name: what, volumeCapabilities: [RWX], parameters };
    const request = create(CreateVolumeRequestSchema, wish);
    const { volumeId, volumeContext } = await opened.volumes.create(request, signal);
    const own = `${volumeContext["prefix"]}k`;
    for (const key of ["other-tenant/k", own]) await world.put(bucket, key);
    await world.begin(bucket, own);
    const work = opened.volumes.delete({ volumeId, name: what, secrets: {} }, signal);
    await assert.rejects(work, { message: /the S3 server ignores the prefix of listings/ });
    assert.deepEqual((await world.keysIn(bucket)).toSorted(), ["other-tenant/k", own].toSorted());
  });
}

for (const [what, isFor] of [
  ["every call", () => true],
  ["tags", isTagging],
  ["listings", ({ path }: Passing) => /[?&](versions|list-type|uploads)\b/.test(path)],
  ["DeleteBucket", isBucketDeletion],
] as const) {
  test(`an ingress without a route for ${what}: the volume is not taken for deleted`, async () => {
    await using lost = await world.driver({ judge: (one) => (isFor(one) ? "404" : undefined) });
    await using opened = await world.driver();
    const { volumeId } = await opened.volumes.create(requestFor(what, "delete"), signal);
    const message = /HTTP 404 without an S3 error document/;
    await assert.rejects(lost.remove(what), { kind: "remote", message });
    const { kept } = await opened.remove(what);
    assert.equal(kept, undefined);
    assert.equal(await world.hasBucket(volumeId), false);
    // S3's own words for it.
    assert.deepEqual(await opened.remove(what), { kept: undefined });
  });
}

test("an ingress without a route: what a claim has begun is not taken for gone", async () => {
  await using lost = await world.driver({ judge: () => "404" });
  const request = { volumeId: bucketOf("begun"), name: "begun", secrets: {} };
  await assert.rejects(lost.volumes.discard(request, signal), { kind: "remote" });
});

test("a prefix with onDelete delete takes the uploads below it along, and no others", async () => {
  await world.client.send(new CreateBucketCommand({ Bucket: "shared" }));
  await world.keepVersions("shared");
  await using opened = await world.driver();
  const parameters = { bucketName: "shared", prefix: "team", onDelete: "delete" };
  const request = create(CreateVolumeRequestSchema, {
    name: "part",
    volumeCapabilities: [RWX],
    parameters,
  });
  const { volumeId, volumeContext } = await opened.volumes.create(request, signal);
  const below = volumeContext["prefix"] ?? "";
  for (const key of [`${below}a`, `${below}b/c`, "team/neighbour"]) await world.put("shared", key);
  for (const key of [`${below}upload`, "team/upload"]) await world.begin("shared", key);
  const answer = await opened.volumes.delete({ volumeId, name: "part", secrets: {} }, signal);
  assert.deepEqual(answer, { kept: undefined });
  assert.deepEqual(await world.keysIn("shared"), ["team/neighbour"]);
  assert.equal(await world.uploadsIn("shared"), 1);
  const { DeleteMarkers } = await world.client.send(
    new ListObjectVersionsCommand({ Bucket: "shared" }),
  );
  assert.equal(DeleteMarkers?.length, 2, "the bucket's owner keeps the versions");
});
