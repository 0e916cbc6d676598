import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  DeleteObjectCommand,
  GetBucketTaggingCommand,
  ListObjectVersionsCommand,
  PutBucketTaggingCommand,
} from "@aws-sdk/client-s3";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { RewritingProxy } from "../engine/rewriting-proxy.ts";
import type { Judge } from "../provisioner/faulty-line.ts";
import {
  AccountWorld,
  ODD_KEYS,
  bucketOf,
  isBucketDeletion,
  isTagging,
  isUploads,
  requestFor,
  signal,
} from "./account-world.ts";
import { scalityFront } from "./scality-front.ts";

const ON_DELETE_TAG = "s3.csi.scality.com/on-delete";
const encoded = (_: string, key: string) => `<Key>${encodeURIComponent(key)}</Key>`;
/** As if somebody started an upload after each that was aborted. */
const neverDeleting: Judge = (one) =>
  isBucketDeletion(one) ? { status: 409, code: "MPUinProgress" } : undefined;

let world: AccountWorld;
before(async () => {
  world = await AccountWorld.start();
});
after(() => world?.[Symbol.asyncDispose]());

async function onDeleteTag(Bucket: string): Promise<string | undefined> {
  const { TagSet = [] } = await world.client.send(new GetBucketTaggingCommand({ Bucket }));
  return TagSet.find(({ Key }) => Key === ON_DELETE_TAG)?.Value;
}

test("unfinished uploads do not hold up the deletion of an empty bucket", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("uploads"), signal);
  for (const key of ODD_KEYS) await world.begin(volumeId, key);
  assert.equal(await world.uploadsIn(volumeId), ODD_KEYS.length);
  assert.deepEqual(await opened.remove("uploads"), { kept: undefined });
  assert.equal(await world.hasBucket(volumeId), false);
});

test("uploads that the server lists URL-encoded without saying so are aborted too", async () => {
  await using proxy = await RewritingProxy.start(world.own.endpoint);
  proxy.rewrite = (request, answer) => {
    if (!isUploads({ path: request.url ?? "" }) || request.method !== "GET") return answer;
    const text = answer.body.toString("utf8").replaceAll(/<Key>([^<]*)<\/Key>/g, encoded);
    return { ...answer, body: Buffer.from(text) };
  };
  await using opened = await world.driver({ endpoint: proxy.url });
  const { volumeId } = await opened.volumes.create(requestFor("encoded"), signal);
  for (const key of ["a b", "deep/er"]) await world.begin(volumeId, key);
  assert.deepEqual(await opened.remove("encoded"), { kept: undefined });
});

test("a bucket with objects keeps its unfinished uploads too", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("both"), signal);
  await world.put(volumeId, "k");
  await world.begin(volumeId, "upload");
  const { kept } = await opened.remove("both");
  assert.equal(kept, `bucket ${volumeId} is kept: it is not empty`);
  assert.equal(await world.uploadsIn(volumeId), 1);
});

test("uploads that the keys may not abort: the bucket is kept, and says why", async () => {
  const front = scalityFront(world.own);
  const denied = { status: 403, code: "AccessDenied" };
  await using opened = await world.driver({
    judge: (one) => (isUploads(one) ? denied : front(one)),
  });
  const { volumeId } = await opened.volumes.create(requestFor("denied"), signal);
  await world.begin(volumeId, "upload");
  const { kept } = await opened.remove("denied");
  assert.match(kept ?? "", /unfinished uploads, and the keys lack s3:ListBucketMultipartUploads/);
});

test("a client that starts uploads all the time ends in a bucket that is kept", async () => {
  await using opened = await world.driver({ judge: neverDeleting });
  const { volumeId } = await opened.volumes.create(requestFor("busy"), signal);
  await world.begin(volumeId, "upload");
  const { kept } = await opened.remove("busy");
  assert.match(kept ?? "", /uploads are started in it as fast as they are aborted/);
});

test("onDelete delete: versions, delete markers, odd keys and uploads all go", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("full", "delete"), signal);
  assert.equal(await onDeleteTag(volumeId), "delete");
  await world.put(volumeId, "before-versions");
  await world.keepVersions(volumeId);
  for (const key of ODD_KEYS) await world.put(volumeId, key);
  for (const key of ODD_KEYS) await world.put(volumeId, key);
  for (const Key of ODD_KEYS.slice(2)) {
    await world.client.send(new DeleteObjectCommand({ Bucket: volumeId, Key }));
  }
  await world.begin(volumeId, "upload/of mine");
  const listed = await world.client.send(new ListObjectVersionsCommand({ Bucket: volumeId }));
  assert.equal(listed.Versions?.length, 1 + 2 * ODD_KEYS.length);
  assert.equal(listed.DeleteMarkers?.length, ODD_KEYS.length - 2);
  assert.deepEqual(await opened.remove("full"), { kept: undefined });
  assert.equal(await world.hasBucket(volumeId), false);
});

test("keepIfNotEmpty: old versions and delete markers count as content", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("versions"), signal);
  await world.keepVersions(volumeId);
  await world.put(volumeId, "k");
  await world.client.send(new DeleteObjectCommand({ Bucket: volumeId, Key: "k" }));
  assert.deepEqual(await world.keysIn(volumeId), []);
  const { kept } = await opened.remove("versions");
  assert.match(
    kept ?? "",
    /is kept: it holds no object, yet noncurrent versions or delete markers/,
  );
});

test("the tag retain keeps a bucket that has lost its other tags", async () => {
  await using opened = await world.driver();
  const { volumeId: Bucket } = await opened.volumes.create(requestFor("retagged"), signal);
  const TagSet = [{ Key: ON_DELETE_TAG, Value: "retain" }];
  await world.client.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
  const { kept } = await opened.remove("retagged");
  assert.equal(kept, `bucket ${Bucket} is kept: onDelete is retain`);
});

test("onDelete retain keeps an empty bucket", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("retained", "retain"), signal);
  const { kept } = await opened.remove("retained");
  assert.equal(kept, `bucket ${volumeId} is kept: onDelete is retain`);
  assert.equal(await world.hasBucket(volumeId), true);
});

test("a bucket with objects is never marked as one to be emptied", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("data"), signal);
  await world.put(volumeId, "k");
  await assert.rejects(opened.volumes.create(requestFor("data", "delete"), signal), {
    kind: "conflict",
    message: /exists and is not empty: with onDelete delete a volume begins with an empty bucket/,
  });
  assert.equal(await onDeleteTag(volumeId), undefined);
  const { kept } = await opened.remove("data");
  assert.match(kept ?? "", /it is not empty/);
  assert.deepEqual(await world.keysIn(volumeId), ["k"]);
});

test("a class that is made anew before the volume is finished changes the choice", async () => {
  await using opened = await world.driver();
  for (const onDelete of ["delete", "retain", undefined, "delete"]) {
    const { volumeId } = await opened.volumes.create(requestFor("changed", onDelete), signal);
    assert.equal(await onDeleteTag(volumeId), onDelete);
  }
});

for (const [what, volumeId, name] of [
  ["the handle of another PV", bucketOf("victim"), "pvc-forged"],
  ["a handle with a choice in it", `${bucketOf("victim")}#delete`, "victim"],
  ["a prefix of another PV", `shared/${volumeUuidOf("victim")}/#delete`, "pvc-forged"],
] as const) {
  test(`a forged PV with ${what} deletes nothing, and says so`, async () => {
    await using opened = await world.driver();
    await opened.volumes.create(requestFor("victim", "delete"), signal);
    await world.put(bucketOf("victim"), "k");
    const { kept } = await opened.volumes.delete({ volumeId, name, secrets: {} }, signal);
    assert.match(kept ?? "", /^nothing was deleted: volume handle /);
    assert.deepEqual(await world.keysIn(bucketOf("victim")), ["k"]);
    assert.deepEqual(await opened.remove("victim"), { kept: undefined });
  });
}

test("tags that were copied from another volume's bucket delete nothing", async () => {
  await using opened = await world.driver();
  const { volumeId } = await opened.volumes.create(requestFor("copy"), signal);
  await world.put(volumeId, "k");
  const source = await opened.volumes.create(requestFor("original", "delete"), signal);
  const command = new GetBucketTaggingCommand({ Bucket: source.volumeId });
  const { TagSet } = await world.client.send(command);
  await world.client.send(new PutBucketTaggingCommand({ Bucket: volumeId, Tagging: { TagSet } }));
  const { kept } = await opened.remove("copy");
  assert.match(kept ?? "", /is kept: by its tags it is the volume original, which it is not/);
  assert.deepEqual(await world.keysIn(volumeId), ["k"]);
});

// prettier-ignore
const unrecorded: [name: string, saying: "501" | { status: number; code: string }, why: RegExp][] = [
  ["a server without tags",     "501",                                   /onDelete is "delete": it is kept in the bucket's tags, which this S3 server does not have/],
  ["keys that may not tag",     { status: 403, code: "AccessDenied" },   /onDelete is "delete": .* the keys lack s3:GetBucketTagging or s3:PutBucketTagging/],
];
for (const [name, saying, why] of unrecorded) {
  test(`${name}: a choice that can't be recorded is refused, and the bucket taken back`, async () => {
    await using opened = await world.driver({
      judge: (one) => (isTagging(one) ? saying : undefined),
    });
    const work = opened.volumes.create(requestFor(name, "delete"), signal);
    await assert.rejects(work, { kind: "remote", message: why });
    await opened.volumes.discard({ volumeId: bucketOf(name), name, secrets: {} }, signal);
    assert.equal(await world.hasBucket(bucketOf(name)), false);
  });
}
