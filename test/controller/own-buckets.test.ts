import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  CreateBucketCommand,
  GetBucketTaggingCommand,
  ListBucketsCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import { create } from "@bufbuild/protobuf";
import { openVolumes } from "../../src/controller/open-volumes.ts";
import {
  CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../../src/csi/gen/csi_pb.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server, S3Access } from "../../tools/stack/s3-server.ts";
import { FaultyLine } from "../provisioner/faulty-line.ts";
import type { Passing, Saying } from "../provisioner/faulty-line.ts";
import { environmentOf, log } from "../provisioner/objects.ts";

const signal = AbortSignal.timeout(60_000);
const mode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
const RWX = { accessMode: mode, accessType: { case: "mount" as const, value: {} } };
const TAG = "s3.csi.scality.com/volume";
const DENIED: Saying = { status: 403, code: "AccessDenied" };
const EXISTS: Saying = { status: 409, code: "BucketAlreadyExists" };

let s3: PosixS3Server;
let own: S3Access;
let other: S3Access;
before(async () => {
  s3 = await startS3Server();
  own = await s3.addAccount("own");
  other = await s3.addAccount("other");
});
after(() => s3?.[Symbol.asyncDispose]());

const requestFor = (name: string) =>
  create(CreateVolumeRequestSchema, { name, volumeCapabilities: [RWX] });
const bucketOf = (name: string) => `csi-s3-${volumeUuidOf(name)}`;
const isCreation = ({ method, path }: Passing) => method === "PUT" && !path.includes("?tagging");
const isTagging = ({ path }: Passing) => path.includes("?tagging");
const isListing = ({ method, path }: Passing) => method === "GET" && /^\/(\?|$)/.test(path);
const isAcl = ({ path }: Passing) => path.includes("?acl");

/** The driver with keys of its own, on a server that says what it is told to say. */
async function driver(judge: (request: Passing) => Saying | undefined = () => undefined) {
  await using owned = new AsyncDisposableStack();
  const line = owned.use(new FaultyLine({ target: new URL(s3.endpoint), judge }));
  const env = environmentOf({ ...own, endpoint: await line.listen() });
  const settings = { env, credentialsDir: undefined, userAgent: "s3csi/test", log };
  const { volumes } = owned.use(openVolumes(settings));
  const all = owned.move();
  return { volumes, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

async function ownerTag(account: S3Access, Bucket: string): Promise<string | undefined> {
  const { TagSet = [] } = await clientOf(account).send(new GetBucketTaggingCommand({ Bucket }));
  return TagSet.find(({ Key }) => Key === TAG)?.Value;
}

async function bucketsOf(account: S3Access): Promise<string[]> {
  const { Buckets = [] } = await clientOf(account).send(new ListBucketsCommand({}));
  return Buckets.map(({ Name = "" }) => Name);
}

const curt = (request: Passing) => (isCreation(request) ? EXISTS : undefined);

test("a server that says 'exists' of one's own: made, not yet tagged, is ours", async () => {
  await clientOf(own).send(new CreateBucketCommand({ Bucket: bucketOf("begun") }));
  await using opened = await driver(curt);
  const { volumeId } = await opened.volumes.create(requestFor("begun"), signal);
  assert.equal(volumeId, bucketOf("begun"));
  assert.equal(await ownerTag(own, bucketOf("begun")), "begun");
  assert.equal((await opened.volumes.create(requestFor("begun"), signal)).volumeId, volumeId);
});

test("the same where owners of buckets are not told", async () => {
  await clientOf(own).send(new CreateBucketCommand({ Bucket: bucketOf("no-acl") }));
  await using opened = await driver((one) => (isAcl(one) ? DENIED : curt(one)));
  await opened.volumes.create(requestFor("no-acl"), signal);
});

test("one that holds objects is nobody's volume, and one that can't be told neither", async () => {
  const Bucket = bucketOf("filled");
  await clientOf(own).send(new CreateBucketCommand({ Bucket }));
  await clientOf(own).send(new PutObjectCommand({ Bucket, Key: "k", Body: "k" }));
  await using opened = await driver(curt);
  await assert.rejects(opened.volumes.create(requestFor("filled"), signal), {
    kind: "conflict",
    message: /exists and holds objects, yet no tag of a volume/,
  });
  await using blind = await driver((one) => (isListing(one) ? DENIED : curt(one)));
  await assert.rejects(blind.volumes.create(requestFor("filled"), signal), {
    kind: "conflict",
    message: /may be anybody's: the keys lack s3:ListAllMyBuckets/,
  });
});

test("another's bucket is a conflict, and is left alone when the claim goes", async () => {
  const Bucket = bucketOf("theirs");
  await clientOf(other).send(new CreateBucketCommand({ Bucket }));
  await using opened = await driver();
  await assert.rejects(opened.volumes.create(requestFor("theirs"), signal), {
    kind: "conflict",
    message: /belongs to someone else/,
  });
  const request = { volumeId: Bucket, name: "theirs", secrets: {} };
  assert.deepEqual(await opened.volumes.discard(request, signal), { kept: undefined });
  assert.deepEqual(await bucketsOf(other), [Bucket]);
});

test("taking back: what is ours by tag or by list, never what is tagged as another's", async () => {
  await using opened = await driver();
  const discard = (name: string) =>
    opened.volumes.discard({ volumeId: bucketOf(name), name, secrets: {} }, signal);
  const { volumeId } = await opened.volumes.create(requestFor("tagged"), signal);
  await clientOf(own).send(new CreateBucketCommand({ Bucket: bucketOf("bare") }));
  await clientOf(own).send(new CreateBucketCommand({ Bucket: bucketOf("marked") }));
  const Tagging = { TagSet: [{ Key: TAG, Value: "pvc-another" }] };
  await clientOf(own).send(new PutBucketTaggingCommand({ Bucket: bucketOf("marked"), Tagging }));
  for (const name of ["tagged", "bare", "marked", "never-made"]) await discard(name);
  const left = await bucketsOf(own);
  assert(!left.includes(volumeId) && !left.includes(bucketOf("bare")));
  assert(left.includes(bucketOf("marked")));
});

// prettier-ignore
const untagged: [name: string, saying: Saying][] = [
  ["has no such call",    { status: 501, code: "NotImplemented" }],
  ["does not allow it",   { status: 405, code: "MethodNotAllowed" }],
  ["has a policy",        DENIED],
];
for (const [name, saying] of untagged) {
  test(`tags, and the server ${name}: it works without`, async () => {
    await using opened = await driver((one) => (isTagging(one) ? saying : undefined));
    const { volumeId } = await opened.volumes.create(requestFor(name), signal);
    await opened.volumes.discard({ volumeId, name, secrets: {} }, signal);
    assert(!(await bucketsOf(own)).includes(volumeId));
  });
}

// prettier-ignore
const failing: [method: string, saying: Saying][] = [
  ["GET",  { status: 403, code: "InvalidAccessKeyId" }],
  ["PUT",  { status: 403, code: "SignatureDoesNotMatch" }],
  ["PUT",  { status: 400, code: "ExpiredToken" }],
  ["PUT",  { status: 400, code: "InvalidTag" }],
  ["GET",  { status: 404, code: "NoSuchBucket" }],
];
for (const [method, saying] of failing) {
  const name = `${method} ${saying.code}`;
  test(`tags, and the server answers ${name}: not done yet, and no final word`, async () => {
    await using opened = await driver((one) =>
      isTagging(one) && one.method === method ? saying : undefined,
    );
    const work = opened.volumes.create(requestFor(name), signal);
    const message = new RegExp(
      `BucketTagging csi-s3-\\S+ at .*: HTTP ${saying.status} ${saying.code}`,
    );
    await assert.rejects(work, { kind: "remote", message });
    assert((await bucketsOf(own)).includes(bucketOf(name)));
  });
}
