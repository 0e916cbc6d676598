import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { CreateBucketCommand, ListBucketsCommand } from "@aws-sdk/client-s3";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import type { Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Controller, VolumeCapability_AccessMode_Mode as Mode } from "../../src/csi/gen/csi_pb.ts";
import type {
  CreateVolumeRequestSchema,
  DeleteVolumeRequestSchema,
  ValidateVolumeCapabilitiesRequestSchema,
  VolumeCapabilitySchema,
} from "../../src/csi/gen/csi_pb.ts";
import { socketPathOf } from "../../src/csi/serve.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server, S3Access } from "../../tools/stack/s3-server.ts";
import { environmentOf, secretOf } from "../provisioner/objects.ts";
import { startController } from "../sanity/controller-process.ts";
import { PARAMETERS } from "./known-parameters.ts";

type Creation = MessageInitShape<typeof CreateVolumeRequestSchema>;
type Deletion = MessageInitShape<typeof DeleteVolumeRequestSchema>;
type Validation = MessageInitShape<typeof ValidateVolumeCapabilitiesRequestSchema>;

const owned = new AsyncDisposableStack();
let s3: PosixS3Server;
let alice: S3Access;
let bob: S3Access;
let driver: Client<typeof Controller>;
before(async () => {
  s3 = owned.use(await startS3Server());
  alice = await s3.addAccount("alice");
  bob = await s3.addAccount("bob");
  const { endpoint } = owned.use(await startController(environmentOf(s3)));
  const nodeOptions = { createConnection: () => connect(socketPathOf(endpoint)) };
  driver = createClient(
    Controller,
    createGrpcTransport({ baseUrl: "http://localhost", nodeOptions }),
  );
  await clientOf(bob).send(new CreateBucketCommand({ Bucket: TAKEN }));
  await driver.createVolume(creation({ name: "sized", capacityRange: { requiredBytes: 5n } }));
});
after(() => owned.disposeAsync());

function capability(mode: Mode, ...mountFlags: string[]) {
  return { accessMode: { mode }, accessType: { case: "mount" as const, value: { mountFlags } } };
}
const mode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
const RWX = capability(mode.mode);
const BLOCK = { accessMode: mode, accessType: { case: "block" as const, value: {} } };
const creation = (given: Creation): Creation => ({
  name: "v",
  volumeCapabilities: [RWX],
  ...given,
});
const flags = (...mountFlags: string[]) => ({
  volumeCapabilities: [capability(mode.mode, ...mountFlags)],
});
const own = (name: string) => `csi-s3-${volumeUuidOf(name)}`;
const TAKEN = own("taken");
const MODES = "ReadWriteMany, ReadOnlyMany, ReadWriteOnce and ReadWriteOncePod";
const PREFIX_RULE = "names of letters, digits, dots, underscores and hyphens with a / between them";
const TEMPLATES = "${pvc.name}, ${pvc.namespace}, ${pv.name}";
const KEYS = "failed to resolve credentials: CSI secrets missing required AWS credentials: ";
const BOTH = "; the Secret must hold access_key_id and secret_access_key";
const parameter = (key: string, value: string, rule: string) =>
  `StorageClass parameter ${key} is ${JSON.stringify(value)}: ${rule}`;
const shared = (more: Record<string, string> = {}) => ({
  parameters: { bucketName: "shared", ...more },
});

// prettier-ignore
const refusedCreations: [name: string, given: Creation, code: Code, says: string | RegExp][] = [
  ["no name",                      { name: "" },                       Code.InvalidArgument, "Volume name not provided"],
  ["a long name",                  { name: "x".repeat(129) },          Code.InvalidArgument, `Volume name is longer than 128 bytes: ${"x".repeat(129)}`],
  ["no capability",                { volumeCapabilities: [] },         Code.InvalidArgument, "Volume capabilities not provided"],
  ["a capability without mode",    { volumeCapabilities: [{ accessType: RWX.accessType }] }, Code.InvalidArgument, `Volume capability has no access mode; there are ${MODES}`],
  ["one without a type",           { volumeCapabilities: [{ accessMode: mode }] }, Code.InvalidArgument, "Volume capability has no access type: use mount"],
  ["block mode",                   { volumeCapabilities: [BLOCK] },    Code.InvalidArgument, "Volume capability not supported: volumeMode Block; S3 volumes are filesystems"],
  ["one writer, many readers",     { volumeCapabilities: [RWX, capability(Mode.MULTI_NODE_SINGLE_WRITER)] }, Code.InvalidArgument, `Volume capability not supported: access mode MULTI_NODE_SINGLE_WRITER; S3 volumes only support ${MODES}`],
  ["a snapshot as the source",     { volumeContentSource: { type: { case: "snapshot", value: { snapshotId: "s" } } } }, Code.InvalidArgument, "Volume content source not supported: S3 volumes begin empty"],
  ["a VolumeAttributesClass",      { mutableParameters: { iops: "9" } }, Code.InvalidArgument, "VolumeAttributesClass not supported: iops"],
  ["a range that is none",         { capacityRange: { requiredBytes: 5n, limitBytes: 4n } }, Code.InvalidArgument, "capacity_range 5 to 4 bytes is not a range"],

  ["an empty access_key_id",       { secrets: { access_key_id: " ", secret_access_key: "x" } }, Code.InvalidArgument, `${KEYS}access_key_id${BOTH}`],
  ["no secret_access_key",         { secrets: { access_key_id: "x" } }, Code.InvalidArgument, `${KEYS}secret_access_key${BOTH}`],
  ["keys by other names",          { secrets: { AWS_ACCESS_KEY_ID: "x" } }, Code.InvalidArgument, `${KEYS}access_key_id, secret_access_key${BOTH}`],
  ["an empty Secret that is meant", { parameters: { authenticationSource: "secret" } }, Code.InvalidArgument, 'StorageClass parameter authenticationSource is "secret", yet no keys came with the request: name a Secret with access_key_id and secret_access_key as csi.storage.k8s.io/provisioner-secret-name and -namespace'],
  ["keys that S3 does not know",   { secrets: { access_key_id: "nobody", secret_access_key: "x" } }, Code.PermissionDenied, /^CreateBucket csi-s3-.* HTTP 403 InvalidAccessKeyId/],
  ["a wrong secret_access_key",    { secrets: { access_key_id: "alice", secret_access_key: "x" } }, Code.PermissionDenied, /^CreateBucket csi-s3-.* HTTP 403 SignatureDoesNotMatch/],

  ["an unknown parameter",         { parameters: { foo: "bar" } },     Code.InvalidArgument, parameter("foo", "bar", `not known; use ${PARAMETERS}`)],
  ["a misspelt one",               { parameters: { bucketnameprefix: "a-" } }, Code.InvalidArgument, parameter("bucketnameprefix", "a-", "not known; write bucketNamePrefix")],
  ["an unknown one of Kubernetes", { parameters: { "csi.storage.k8s.io/x": "y" } }, Code.InvalidArgument, parameter("csi.storage.k8s.io/x", "y", `not known; use ${PARAMETERS}`)],
  ["an unknown source of keys",    { parameters: { authenticationSource: "pod" } }, Code.InvalidArgument, parameter("authenticationSource", "pod", "use driver or secret")],
  ["a region that is none",        { parameters: { region: "eu west" } }, Code.InvalidArgument, parameter("region", "eu west", "letters, digits and hyphens")],
  ["a region of another server",   { parameters: { region: "eu-west-1" } }, Code.InvalidArgument, /^CreateBucket csi-s3-.*AuthorizationHeaderMalformed/],
  ["a bad bucketNamePrefix",       { parameters: { bucketNamePrefix: "Team_" } }, Code.InvalidArgument, parameter("bucketNamePrefix", "Team_", "1 to 27 small letters, digits and hyphens, the first not a hyphen")],
  ["bucketNamePrefix and bucketName", shared({ bucketNamePrefix: "a" }), Code.InvalidArgument, parameter("bucketNamePrefix", "a", "not with bucketName, which is the bucket")],
  ["a bucketName that is none",    { parameters: { bucketName: "a/b" } }, Code.InvalidArgument, parameter("bucketName", "a/b", "not the name of a bucket")],
  ["a bucketName without bucket",  shared(),                           Code.FailedPrecondition, 'StorageClass parameter bucketName is "shared": there is no such bucket; the driver makes none for prefix volumes'],
  ["a prefix without bucketName",  { parameters: { prefix: "a" } },    Code.InvalidArgument, parameter("prefix", "a", "only with bucketName: a volume's own bucket has no prefix")],
  ["a prefix that climbs",         shared({ prefix: "../a" }),         Code.InvalidArgument, parameter("prefix", "../a", PREFIX_RULE)],
  ["an unknown template",          shared({ prefix: "${pvc.uid}" }),   Code.InvalidArgument, parameter("prefix", "${pvc.uid}", `\${pvc.uid} is not known; use ${TEMPLATES}`)],
  ["a template without its value", shared({ prefix: "${pvc.name}" }),  Code.InvalidArgument, parameter("prefix", "${pvc.name}", "${pvc.name} is not known here: start the provisioner with --extra-create-metadata")],
  ["an unknown onDelete of a bucket", { parameters: { onDelete: "purge" } }, Code.InvalidArgument, parameter("onDelete", "purge", "use delete, keepIfNotEmpty or retain")],
  ["an unknown onDelete",          shared({ onDelete: "purge" }),      Code.InvalidArgument, parameter("onDelete", "purge", "use delete, keepIfNotEmpty or retain")],

  ["a mount option that is none",  flags("Read Only"),                 Code.InvalidArgument, 'mountOptions: "Read Only" is not an option: write key, key=value or key value'],
  ["one with two values",          flags("uid=1", "uid=2"),            Code.InvalidArgument, "mountOptions: uid is given twice: 1, 2"],
  ["one that no node takes",       flags("ca-bundle=/x"),              Code.InvalidArgument, "mountOptions: ca-bundle: a Mountpoint Pod has no file of the volume's; authorities are the driver's setting"],
  ["a prefix in a prefix volume",  { ...shared(), ...flags("prefix a/") }, Code.InvalidArgument, `StorageClass parameter bucketName is "shared": mountOptions: "prefix a/" can't be used: the volume itself is a prefix`],

  ["the name with more bytes",     { name: "sized", capacityRange: { requiredBytes: 6n } }, Code.AlreadyExists, "volume sized exists with 5 bytes, not with at least 6"],
  ["the name with fewer bytes",    { name: "sized", capacityRange: { requiredBytes: 1n, limitBytes: 4n } }, Code.AlreadyExists, "volume sized exists with 5 bytes, not with 1 to 4"],
  ["the name in another region",   { name: "sized", capacityRange: { requiredBytes: 5n }, parameters: { region: "us-east-1" } }, Code.AlreadyExists, "volume sized exists with region that of the driver, not us-east-1"],
  ["a bucket of somebody else",    { name: "taken" },                  Code.AlreadyExists, `bucket ${TAKEN} exists and belongs to someone else`],
];
for (const [name, given, code, says] of refusedCreations) {
  test(`CreateVolume with ${name} is ${Code[code]}`, async () => {
    await rejectsWith(driver.createVolume(creation(given)), code, says);
  });
}

test("what was refused has left no bucket", async () => {
  assert.deepEqual((await buckets()).toSorted(), [TAKEN, own("sized")].toSorted());
});

for (const [accessMode, kubernetesName] of [
  [Mode.MULTI_NODE_MULTI_WRITER, "ReadWriteMany"],
  [Mode.MULTI_NODE_READER_ONLY, "ReadOnlyMany"],
  [Mode.SINGLE_NODE_MULTI_WRITER, "ReadWriteOnce"],
  [Mode.SINGLE_NODE_WRITER, "ReadWriteOnce of an older provisioner"],
  [Mode.SINGLE_NODE_SINGLE_WRITER, "ReadWriteOncePod"],
] as const) {
  test(`${kubernetesName} is offered`, async () => {
    const given = { name: kubernetesName, volumeCapabilities: [capability(accessMode)] };
    const { volume } = await driver.createVolume(creation(given));
    assert.equal(volume?.volumeId, own(kubernetesName));
    await driver.deleteVolume({ volumeId: own(kubernetesName) });
  });
}

test("a class for the sidecar says whose keys mount: by its Secret, or by itself", async () => {
  const secrets = secretOf(alice);
  for (const [authenticationSource, want] of [
    [undefined, "secret"],
    ["secret", "secret"],
    ["driver", "driver"],
  ] as const) {
    const parameters = authenticationSource === undefined ? {} : { authenticationSource };
    const { volume } = await driver.createVolume(creation({ name: "own", secrets, parameters }));
    assert.equal(volume?.volumeContext["authenticationSource"], want);
  }
  await driver.deleteVolume({ volumeId: own("own"), secrets });
});

// prettier-ignore
const refusedDeletions: [name: string, given: () => Deletion, code: Code, says: string | RegExp][] = [
  ["no id",                 () => ({ volumeId: "" }),                                           Code.InvalidArgument,  "Volume ID not provided"],
  ["half a Secret",         () => ({ volumeId: TAKEN, secrets: { access_key_id: "x" } }),       Code.InvalidArgument,  `${KEYS}secret_access_key${BOTH}`],
  ["another tenant's keys", () => ({ volumeId: TAKEN, secrets: secretOf(alice) }),              Code.PermissionDenied, /^DeleteBucket csi-s3-.* HTTP 403 AccessDenied/],
];
for (const [name, given, code, says] of refusedDeletions) {
  test(`DeleteVolume with ${name} is ${Code[code]}`, async () => {
    await rejectsWith(driver.deleteVolume(given()), code, says);
    assert((await buckets()).includes(TAKEN));
  });
}

for (const [name, volumeId] of [
  ["garbage", "../../etc"],
  ["that of a static volume", "sized-pv"],
  ["the name of a bucket that is not ours", "somebodys-bucket"],
  ["that of a volume that is gone", own("gone")],
] as const) {
  test(`DeleteVolume with an id that is ${name} succeeds and deletes nothing`, async () => {
    if (name.startsWith("the name")) {
      await clientOf(s3).send(new CreateBucketCommand({ Bucket: volumeId }));
    }
    const there = await buckets();
    await driver.deleteVolume({ volumeId });
    assert.deepEqual(await buckets(), there);
  });
}

const sized = { volumeId: own("sized"), volumeCapabilities: [RWX] };
// prettier-ignore
const refusedValidations: [name: string, given: Validation, code: Code, says: string][] = [
  ["no id",              { ...sized, volumeId: "" },                Code.InvalidArgument, "Volume ID not provided"],
  ["no capability",      { ...sized, volumeCapabilities: [] },      Code.InvalidArgument, "Volume capabilities not provided"],
  ["garbage for an id",  { ...sized, volumeId: "nope" },            Code.NotFound,        "there is no volume nope"],
  ["a volume that is gone", { ...sized, volumeId: own("gone") },    Code.NotFound,        `there is no volume ${own("gone")}`],
];
for (const [name, given, code, says] of refusedValidations) {
  test(`ValidateVolumeCapabilities with ${name} is ${Code[code]}`, async () => {
    await rejectsWith(driver.validateVolumeCapabilities(given), code, says);
  });
}

type Capability = MessageInitShape<typeof VolumeCapabilitySchema>;
// prettier-ignore
const unconfirmed: [name: string, given: Capability, says: string][] = [
  ["block mode",         BLOCK,                                           "Volume capability not supported: volumeMode Block; S3 volumes are filesystems"],
  ["one writer of many", capability(Mode.MULTI_NODE_SINGLE_WRITER),       `Volume capability not supported: access mode MULTI_NODE_SINGLE_WRITER; S3 volumes only support ${MODES}`],
  ["no access mode",     { accessType: RWX.accessType },                  `Volume capability has no access mode; there are ${MODES}`],
  ["a bad mount option", capability(mode.mode, "Read Only"),              'mountOptions: "Read Only" is not an option: write key, key=value or key value'],
];
for (const [name, given, says] of unconfirmed) {
  test(`ValidateVolumeCapabilities does not confirm ${name}, and says why`, async () => {
    const volumeCapabilities = [RWX, given];
    const answer = await driver.validateVolumeCapabilities({ ...sized, volumeCapabilities });
    assert.deepEqual([answer.confirmed, answer.message], [undefined, says]);
  });
}

test("ValidateVolumeCapabilities confirms what the volume can", async () => {
  const { confirmed, message } = await driver.validateVolumeCapabilities(sized);
  assert.equal(message, "");
  assert.equal(confirmed?.volumeCapabilities[0]?.accessMode?.mode, mode.mode);
});

async function rejectsWith(call: Promise<unknown>, code: Code, says: string | RegExp) {
  await assert.rejects(call, (error) => {
    assert(error instanceof ConnectError);
    if (typeof says === "string") assert.equal(error.rawMessage, says);
    else assert.match(error.rawMessage, says);
    assert.equal(Code[error.code], Code[code]);
    return true;
  });
}

async function buckets(): Promise<string[]> {
  const { Buckets = [] } = await clientOf(s3).send(new ListBucketsCommand({}));
  return Buckets.map(({ Name = "" }) => Name);
}
