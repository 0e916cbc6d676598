import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { GetBucketTaggingCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startProvisioner } from "../../src/provisioner/run.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server } from "../../tools/stack/s3-server.ts";
import { CuttableLine, installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { Users, log, volumesOf } from "./objects.ts";

const stop = new AbortController();
const { signal } = stop;
const TIMEOUT = { timeout: 60_000 };
const owned = new AsyncDisposableStack();

let chart: InstalledChart;
let s3: PosixS3Server;
let users: Users;
let line: CuttableLine;

before(async () => {
  chart = owned.use(await installChart());
  s3 = owned.use(await startS3Server());
  users = new Users(chart.admin, s3, signal);
  await users.start();
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  line = owned.use(new CuttableLine(access.server));
  const client = owned.use(new KubeClient(await line.access(access)));
  const { volumes: driver } = owned.use(volumesOf(s3));
  const backOff = { firstMs: 50, maxMs: 500 };
  const options = { client, driver, instance: "controller-0", log, backOff };
  const provisioning = startProvisioner(options, signal);
  owned.defer(async () => {
    stop.abort();
    await provisioning;
  });
  await users.storageClass("plain");
}, TIMEOUT);

after(() => owned.disposeAsync());

test("a claim becomes a bucket and a PV, and both go with it", TIMEOUT, async () => {
  const uid = await users.claim("first", "plain");
  const volume = await users.bound("first");
  const bucket = `csi-s3-${volumeUuidOf(`pvc-${uid}`)}`;
  assert.equal(volume.metadata?.name, `pvc-${uid}`);
  assert.equal(volume.spec?.csi?.volumeHandle, bucket);
  assert.deepEqual(volume.spec?.csi?.volumeAttributes, {
    bucketName: bucket,
    dynamicProvisioning: "true",
    authenticationSource: "driver",
  });
  assert.equal(volume.spec?.persistentVolumeReclaimPolicy, "Delete");
  assert.deepEqual(await users.buckets(), [bucket]);
  const { TagSet } = await users.s3.send(new GetBucketTaggingCommand({ Bucket: bucket }));
  assert.deepEqual(Object.fromEntries(TagSet?.map(({ Key, Value }) => [Key, Value]) ?? []), {
    "s3.csi.scality.com/volume": `pvc-${uid}`,
    "s3.csi.scality.com/capacity-bytes": String(1024 ** 3),
    "kubernetes.io/created-for/pvc/name": "first",
    "kubernetes.io/created-for/pvc/namespace": "default",
    "kubernetes.io/created-for/pv/name": `pvc-${uid}`,
  });
  await users.event("first", "ProvisioningSucceeded", /pvc-/);
  await users.deleteClaim("first");
  await users.volumeGone(`pvc-${uid}`);
  assert.deepEqual(await users.buckets(), []);
});

test("a bucket that is not empty is kept, and an event says so", TIMEOUT, async () => {
  const uid = await users.claim("full", "plain");
  const bucket = (await users.bound("full")).spec?.csi?.volumeHandle ?? "";
  await users.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "k", Body: "x" }));
  await users.deleteClaim("full");
  await users.event(`pvc-${uid}`, "BucketKept", new RegExp(`${bucket} is kept: it is not empty`));
  await users.event("full", "BucketKept", /not empty/);
  await users.volumeGone(`pvc-${uid}`);
  assert.deepEqual(await users.buckets(), [bucket]);
});
