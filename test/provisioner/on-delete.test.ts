import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CreateMultipartUploadCommand, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { STORAGE_CLASSES } from "../../src/kube/resource.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { scalityFront } from "../controller/scality-front.ts";
import type { Judge } from "./faulty-line.ts";
import type { Users } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 60_000 };

let world: ProvisioningWorld;
let users: Users;
let front: Judge = () => undefined;
before(async () => {
  world = await startWorld(1, (request) => front(request));
  front = scalityFront(world.s3);
  ({ users } = world);
  await users.storageClass("emptied", { parameters: { onDelete: "delete" } });
}, TIMEOUT);
after(() => world?.[Symbol.asyncDispose]());

async function bucketFor(name: string, className: string): Promise<string> {
  await users.claim(name, className);
  return (await users.bound(name)).spec?.csi?.volumeHandle ?? "";
}

async function keysIn(Bucket: string): Promise<(string | undefined)[]> {
  const { Contents = [] } = await users.s3.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key }) => Key);
}

test("unfinished uploads do not keep a PV from being deleted", TIMEOUT, async () => {
  const Bucket = await bucketFor("uploading", "plain");
  await users.s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "a/b c" }));
  await users.removed("uploading");
  assert(!(await users.buckets()).includes(Bucket));
});

test("onDelete delete: the objects go with the claim", TIMEOUT, async () => {
  const bucket = await bucketFor("full", "emptied");
  for (const key of ["a", "b/c", "b/d e"]) await users.put(bucket, key);
  await users.s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key: "b/f" }));
  await users.removed("full");
  assert(!(await users.buckets()).includes(bucket));
});

test("onDelete retain: an empty bucket stays, and an event says so", TIMEOUT, async () => {
  await users.storageClass("retained", { parameters: { onDelete: "retain" } });
  const bucket = await bucketFor("kept", "retained");
  await users.removed("kept");
  await users.event("kept", "BucketKept", /is kept: onDelete is retain/);
  assert((await users.buckets()).includes(bucket));
  await users.removeBucket(bucket);
});

test("a class made anew with onDelete delete leaves older volumes alone", TIMEOUT, async () => {
  await users.storageClass("edited");
  const bucket = await bucketFor("older", "edited");
  await users.put(bucket, "k");
  await world.chart.admin.delete(STORAGE_CLASSES, { name: "edited" }, {}, world.signal);
  await users.storageClass("edited", { parameters: { onDelete: "delete" } });
  const younger = await bucketFor("younger", "edited");
  await users.put(younger, "k");
  await Promise.all([users.removed("older"), users.removed("younger")]);
  assert.deepEqual(await keysIn(bucket), ["k"]);
  assert(!(await users.buckets()).includes(younger));
  await users.removeBucket(bucket);
});

test("a forged PV deletes neither a bucket in use nor one that was kept", TIMEOUT, async () => {
  const used = await bucketFor("in-use", "emptied");
  const uid = await users.claim("was-kept", "plain");
  const kept = (await users.bound("was-kept")).spec?.csi?.volumeHandle ?? "";
  for (const bucket of [used, kept]) await users.put(bucket, "k");
  await users.removed("was-kept");
  await users.forge("forged", used);
  await users.event("forged", "BucketKept", /nothing was deleted: volume handle \S+ is not that/);
  await users.forge(`pvc-${uid}`, kept);
  await users.volumeGone("forged");
  await users.volumeGone(`pvc-${uid}`);
  for (const bucket of [used, kept]) assert.deepEqual(await keysIn(bucket), ["k"]);
  assert.equal(kept, `csi-s3-${volumeUuidOf(`pvc-${uid}`)}`);
  await users.removed("in-use");
  await users.removeBucket(kept);
});
