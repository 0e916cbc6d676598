import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  CreateBucketCommand,
  ListBucketsCommand,
  PutBucketTaggingCommand,
} from "@aws-sdk/client-s3";
import { PVCS, SECRETS } from "../../src/kube/resource.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";
import { secretOf } from "./objects.ts";
import type { Users } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 60_000 };
const FIELD = "csi.storage.k8s.io/";

let world: ProvisioningWorld;
let users: Users;
let alice: S3Access;
let bob: S3Access;
before(async () => {
  world = await startWorld();
  ({ users } = world);
  alice = await world.s3.addAccount("alice");
  bob = await world.s3.addAccount("bob");
}, TIMEOUT);
after(() => world?.[Symbol.asyncDispose]());

function secretParameters(use: "provisioner" | "node-publish", name: string, namespace: string) {
  return { [`${FIELD}${use}-secret-name`]: name, [`${FIELD}${use}-secret-namespace`]: namespace };
}

async function bucketsOf(account: S3Access): Promise<string[]> {
  const { Buckets = [] } = await clientOf(account).send(new ListBucketsCommand({}));
  return Buckets.map(({ Name = "" }) => Name);
}

test("a tenant's keys make the bucket and delete it; another's mount it", TIMEOUT, async () => {
  await users.secret("kube-system", "alice", secretOf(alice));
  await users.secret("default", "tenant-mounts", secretOf(bob));
  const parameters = {
    ...secretParameters("provisioner", "alice", "kube-system"),
    ...secretParameters("node-publish", "${pvc.name}-mounts", "${pvc.namespace}"),
  };
  await users.storageClass("tenant", { parameters });
  await users.claim("tenant", "tenant");
  const { metadata, spec } = await users.bound("tenant");
  assert.deepEqual(await bucketsOf(alice), [spec?.csi?.volumeHandle], "it is alice's own");
  assert.equal(spec?.csi?.volumeAttributes?.["authenticationSource"], "secret");
  const ref = { name: "tenant-mounts", namespace: "default" };
  assert.deepEqual(spec?.csi?.nodePublishSecretRef, ref);
  const key = "volume.kubernetes.io/provisioner-deletion-secret-name";
  assert.equal(metadata?.annotations?.[key], "alice");
  await users.removed("tenant");
  assert.deepEqual(await bucketsOf(alice), []);
});

test("a Secret by an annotation and by the PV's name", TIMEOUT, async () => {
  const annotated = secretParameters("node-publish", "${pvc.annotations['team']}", "default");
  const byName = secretParameters("provisioner", "${pv.name}", "${pvc.namespace}");
  await users.storageClass("templated", { parameters: { ...annotated, ...byName } });
  await users.secret("default", "red", secretOf(bob));
  const metadata = { annotations: { team: "red" } };
  const uid = await users.claim("templated", "templated", {}, metadata);
  await users.event(
    "templated",
    "ProvisioningFailed",
    new RegExp(`Secret default/pvc-${uid} does`),
  );
  await users.secret("default", `pvc-${uid}`, secretOf(alice));
  const { spec } = await users.bound("templated");
  assert.equal(spec?.csi?.nodePublishSecretRef?.name, "red");
  await users.removed("templated");
});

test("mounting with a Secret alone: the driver makes the bucket", TIMEOUT, async () => {
  const parameters = secretParameters("node-publish", "red", "default");
  await users.storageClass("mount-only", { parameters });
  await users.claim("mount-only", "mount-only");
  const { spec } = await users.bound("mount-only");
  assert.equal(spec?.csi?.volumeAttributes?.["authenticationSource"], "secret");
  await users.removed("mount-only");
});

// prettier-ignore
const broken: [name: string, data: Record<string, string> | undefined, note: RegExp][] = [
  ["a missing Secret",     undefined,                                    /Secret default\/broken-\d does not exist/],
  ["an empty Secret",      {},                                           /Secret default\/broken-\d has no access_key_id and no secret_access_key/],
  ["half of the keys",     { access_key_id: "alice" },                   /has no secret_access_key/],
  ["wrong keys",           { access_key_id: "alice", secret_access_key: "x" }, /CreateBucket csi-s3-\S+ at http\S+: HTTP 403 SignatureDoesNotMatch/],
];
for (const [index, [name, data, note]] of broken.entries()) {
  test(
    `${name}: an event, no fall-back to the driver's keys; mended, it heals`,
    TIMEOUT,
    async () => {
      const secret = `broken-${index}`;
      const { admin } = world.chart;
      const parameters = secretParameters("provisioner", secret, "default");
      await users.storageClass(secret, { parameters });
      if (data !== undefined) await users.secret("default", secret, data);
      await users.claim(secret, secret);
      await users.event(secret, "ProvisioningFailed", note);
      assert.deepEqual(await users.buckets(), []);
      if (data === undefined) await users.secret("default", secret, secretOf(alice));
      else {
        const place = { namespace: "default", name: secret };
        await admin.patch(SECRETS, place, { stringData: secretOf(alice) }, world.signal);
      }
      await users.bound(secret);
      await users.removed(secret);
    },
  );
}

test("a claim that S3 has refused can be deleted at once", TIMEOUT, async () => {
  await users.secret("default", "wrong", { access_key_id: "alice", secret_access_key: "x" });
  const parameters = secretParameters("provisioner", "wrong", "default");
  await users.storageClass("wrong", { parameters });
  await users.claim("wrong", "wrong");
  await users.event("wrong", "ProvisioningFailed", /SignatureDoesNotMatch/);
  await users.deleteClaim("wrong");
  await users.claimGone("wrong");
});

test(
  "keys that are refused when it is deleted: an event, the PV stays, then heals",
  TIMEOUT,
  async () => {
    await users.secret("default", "turning", secretOf(alice));
    await users.storageClass("turning", {
      parameters: secretParameters("provisioner", "turning", "default"),
    });
    const uid = await users.claim("turning", "turning");
    await users.bound("turning");
    const place = { namespace: "default", name: "turning" };
    const { admin } = world.chart;
    await admin.patch(SECRETS, place, { stringData: secretOf(bob) }, world.signal);
    await users.deleteClaim("turning");
    await users.event(`pvc-${uid}`, "VolumeFailedDelete", /DeleteBucket .* HTTP 403 AccessDenied/);
    assert.equal((await bucketsOf(alice)).length, 1);
    await admin.patch(SECRETS, place, { stringData: secretOf(alice) }, world.signal);
    await users.volumeGone(`pvc-${uid}`);
    assert.deepEqual(await bucketsOf(alice), []);
  },
);

test("a bucket of someone else under the volume's name is not taken", TIMEOUT, async () => {
  await users.storageClass("taken", { volumeBindingMode: "WaitForFirstConsumer" });
  const uid = await users.claim("taken", "taken");
  const bucket = `csi-s3-${volumeUuidOf(`pvc-${uid}`)}`;
  const theirs = clientOf(bob);
  await theirs.send(new CreateBucketCommand({ Bucket: bucket }));
  const Tagging = { TagSet: [{ Key: "s3.csi.scality.com/volume", Value: "pvc-another" }] };
  await theirs.send(new PutBucketTaggingCommand({ Bucket: bucket, Tagging }));
  const metadata = { annotations: { "volume.kubernetes.io/selected-node": "node-1" } };
  const place = { namespace: "default", name: "taken" };
  await world.chart.admin.patch(PVCS, place, { metadata }, world.signal);
  await users.event("taken", "ProvisioningFailed", /exists and belongs to someone else/);
  await users.deleteClaim("taken");
  await users.claimGone("taken");
  assert.deepEqual(await bucketsOf(bob), [bucket]);
});
