import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import { PVS } from "../../src/kube/resource.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";
import { Users, secretOf } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 60_000 };
const DRIVER = "s3.csi.scality.com";
const SECRET = "volume.kubernetes.io/provisioner-deletion-secret-name";
/** Every class of this file was made before the driver came. */
const LATER_MS = Date.now() + 3_600_000;

let world: ProvisioningWorld;
let users: Users;
let alice: S3Access;
before(async () => {
  world = await startWorld(1, () => undefined, LATER_MS);
  ({ users } = world);
  alice = await world.s3.addAccount("alice");
  await users.secret("kube-system", "alice", secretOf(alice));
}, TIMEOUT);
after(() => world?.[Symbol.asyncDispose]());

interface Made {
  readonly name: string;
  readonly bucket: string;
}

/** A claim and its PV as the reference driver and the official provisioner have left them. */
async function inherit(claim: string, owner: S3Access, handle = `csi-s3-${randomUUID()}`) {
  await clientOf(owner).send(new CreateBucketCommand({ Bucket: handle }));
  const made: Made = { name: `pvc-${randomUUID()}`, bucket: handle };
  const isAlice = owner.accessKeyId === alice.accessKeyId;
  const annotations = {
    "pv.kubernetes.io/provisioned-by": DRIVER,
    [SECRET]: isAlice ? "alice" : "",
    [`${SECRET}space`]: isAlice ? "kube-system" : "",
  };
  const volumeAttributes = {
    bucketName: handle,
    dynamicProvisioning: "true",
    authenticationSource: isAlice ? "secret" : "driver",
    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-1234-s3.csi.scality.com",
  };
  const metadata = {
    name: made.name,
    annotations,
    finalizers: ["external-provisioner.volume.kubernetes.io/finalizer"],
  };
  const spec = {
    accessModes: ["ReadWriteMany"],
    capacity: { storage: "1Gi" },
    persistentVolumeReclaimPolicy: "Delete",
    storageClassName: "reference",
    claimRef: { namespace: "default", name: claim },
    csi: { driver: DRIVER, volumeHandle: handle, volumeAttributes },
  };
  await world.chart.admin.create(PVS, { metadata, spec }, world.signal);
  await users.claim(claim, "reference", { volumeName: made.name });
  await users.bound(claim);
  return made;
}

async function bucketsOf(account: S3Access): Promise<string[]> {
  return new Users(world.chart.admin, account, world.signal).buckets();
}

test("an empty bucket of the reference driver goes with its PV", TIMEOUT, async () => {
  const { bucket } = await inherit("empty", world.s3);
  await users.removed("empty");
  assert(!(await users.buckets()).includes(bucket));
});

test("the Secret that its PV names deletes it", TIMEOUT, async () => {
  const { bucket } = await inherit("tenants", alice);
  assert.deepEqual(await bucketsOf(alice), [bucket]);
  await users.removed("tenants");
  assert.deepEqual(await bucketsOf(alice), []);
});

test("a second PV with the handle of one that is bound deletes nothing", TIMEOUT, async () => {
  const { name, bucket } = await inherit("twice", world.s3);
  await users.forge("second", bucket);
  const why = new RegExp(`volume handle ${bucket} is in use by PV ${name}`);
  await users.event("second", "BucketKept", why);
  await users.volumeGone("second");
  assert((await users.buckets()).includes(bucket));
  await users.removed("twice");
  assert(!(await users.buckets()).includes(bucket));
});

test("one with objects is kept: an event on claim and PV says why", TIMEOUT, async () => {
  const { name, bucket } = await inherit("full", world.s3);
  await users.put(bucket, "k");
  await users.removed("full");
  const why = new RegExp(`bucket ${bucket} is kept: it is not empty`);
  await users.event("full", "BucketKept", why);
  await users.event(name, "BucketKept", why);
  assert((await users.buckets()).includes(bucket));
});

test("a handle that neither driver gives: an event says that nothing was deleted", async () => {
  const { name, bucket } = await inherit("foreign", world.s3, "bucket-of-another-driver");
  await users.removed("foreign");
  const why = /nothing was deleted: volume handle bucket-of-another-driver is none that/;
  await users.event(name, "BucketKept", why);
  assert((await users.buckets()).includes(bucket));
});

test("a class with parameters that it ignored goes on working, with a warning", async () => {
  const parameters = { type: "fast", bucketNamePrefix: "My_Team" };
  await users.storageClass("reference", { parameters });
  await users.claim("new", "reference");
  const { spec } = await users.bound("new");
  assert.match(spec?.csi?.volumeHandle ?? "", /^csi-s3-/);
  const older = "ignored, since StorageClass reference is older than this driver";
  const first = new RegExp(`parameter type is "fast": not known; .*; ${older}`);
  await users.event("new", "ParameterIgnored", first);
  await users.event("new", "ParameterIgnored", /parameter bucketNamePrefix is "My_Team": 1 to 27/);
  await users.removed("new");
});

test("settings of Mountpoint Pods that can't be right are ignored", TIMEOUT, async () => {
  const parameters = {
    cache: "emptyDir",
    cacheEmptyDirMedium: "Disk",
    mountpointContainerResourcesRequestsCpu: "lots",
    "mountpointEnv.FOO": "x",
    mountpointContainerResourcesRequestsMemory: "256Mi",
  };
  await users.storageClass("odd-pods", { parameters, mountOptions: ["cache /tmp"] });
  await users.claim("odd-pods", "odd-pods");
  const { spec } = await users.bound("odd-pods");
  const attributes = Object.keys(spec?.csi?.volumeAttributes ?? {});
  assert.deepEqual(
    attributes.filter((key) => key in parameters),
    ["mountpointContainerResourcesRequestsMemory"],
  );
  const notes = [/parameter cache is "emptyDir": mountOptions: cache/, /RequestsCpu is "lots"/];
  for (const note of [...notes, /parameter mountpointEnv.FOO: environment variable not/]) {
    await users.event("odd-pods", "ParameterIgnored", note);
  }
  await users.removed("odd-pods");
});

test("what names keys by an old word is an error for every class", TIMEOUT, async () => {
  const parameters = { csiProvisionerSecretName: "a", csiProvisionerSecretNamespace: "b" };
  await users.storageClass("old-words", { parameters });
  await users.claim("old-words", "old-words");
  await users.event(
    "old-words",
    "ProvisioningFailed",
    /csiProvisionerSecretName is "a": not known/,
  );
});
