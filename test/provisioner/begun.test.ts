import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CreateBucketCommand, PutBucketTaggingCommand } from "@aws-sdk/client-s3";
import { PVCS, PVS, SECRETS, STORAGE_CLASSES } from "../../src/kube/resource.ts";
import type { KubeObject, Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import type { Passing, Saying } from "./faulty-line.ts";
import { log, secretOf } from "./objects.ts";
import type { Users } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 90_000 };
const NAMESPACES: Resource<KubeObject> = { prefix: "/api/v1", plural: "namespaces" };
const NOTE = "s3.csi.scality.com/provisioning";
/** Buckets of this prefix are made, and never finished. */
const UNFINISHED: Saying = { status: 403, code: "InvalidAccessKeyId" };
const isUnfinished = ({ method, path }: Passing) =>
  method === "PUT" && /^\/half-.*\?tagging/.test(path);
const half = { bucketNamePrefix: "half-" };

let world: ProvisioningWorld;
let users: Users;
before(async () => {
  world = await startWorld(1, (request) => (isUnfinished(request) ? UNFINISHED : undefined));
  ({ users } = world);
}, TIMEOUT);
after(() => world?.[Symbol.asyncDispose]());

const keysIn = (namespace: string, name: string) => ({
  "csi.storage.k8s.io/provisioner-secret-name": name,
  "csi.storage.k8s.io/provisioner-secret-namespace": namespace,
});

/** A claim whose bucket is there and whose PV is not, and will not be. */
async function begin(name: string, parameters: Record<string, string>, namespace = "default") {
  await users.storageClass(name, { parameters: { ...half, ...parameters } });
  const uid = await users.claim(name, name, {}, { namespace });
  await users.event(name, "ProvisioningFailed", /BucketTagging half-.*InvalidAccessKeyId/);
  const bucket = `half-${volumeUuidOf(`pvc-${uid}`)}`;
  assert((await users.buckets()).includes(bucket));
  return bucket;
}

async function dropClass(name: string): Promise<void> {
  await world.chart.admin.delete(STORAGE_CLASSES, { name }, {}, world.signal);
}

test(
  "a class comes back as another one: the new bucket is bound, the old one goes",
  TIMEOUT,
  async () => {
    const alice = await world.s3.addAccount("alice");
    await users.secret("kube-system", "alice", secretOf(alice));
    const bucket = await begin("changed", keysIn("kube-system", "alice"));
    await dropClass("changed");
    await users.storageClass("changed", { parameters: { bucketNamePrefix: "whole-" } });
    const { spec } = await users.bound("changed");
    assert.match(spec?.csi?.volumeHandle ?? "", /^whole-/);
    const { metadata } = users.claims.get("default/changed") ?? {};
    assert.equal(metadata?.annotations?.[NOTE], undefined);
    assert(!(await users.buckets()).includes(bucket));
    await users.removed("changed");
  },
);

test("a claim is deleted half-way, and its class before it: no orphan", TIMEOUT, async () => {
  const bucket = await begin("classless", {});
  await dropClass("classless");
  await users.deleteClaim("classless");
  await users.claimGone("classless");
  assert(!(await users.buckets()).includes(bucket));
});

test(
  "a namespace goes with claim and keys: nothing hangs, the bucket is named",
  TIMEOUT,
  async () => {
    const { admin } = world.chart;
    await admin.create(NAMESPACES, { metadata: { name: "doomed" } }, world.signal);
    const namespaces = new WatchedList<KubeObject>({
      client: admin,
      log,
      resource: NAMESPACES,
      project: (one) => one,
    });
    namespaces.start(world.signal).catch((error: unknown) => log.error(error));
    await users.secret("doomed", "keys", secretOf(world.s3));
    const bucket = await begin("doomed", keysIn("${pvc.namespace}", "keys"), "doomed");
    await admin.delete(SECRETS, { namespace: "doomed", name: "keys" }, {}, world.signal);
    await admin.delete(NAMESPACES, { name: "doomed" }, {}, world.signal);
    await namespaces.synced;
    await namespaces.until((list) => (list.get("doomed") ? undefined : true), world.signal);
    assert((await users.buckets()).includes(bucket));
    await users.removeBucket(bucket);
  },
);

test("a Secret is deleted before the claim: an event names what may be left", TIMEOUT, async () => {
  await users.secret("default", "lost", secretOf(world.s3));
  const bucket = await begin("keyless", keysIn("default", "lost"));
  const place = { namespace: "default", name: "lost" };
  await world.chart.admin.delete(SECRETS, place, {}, world.signal);
  await users.deleteClaim("keyless");
  await users.claimGone("keyless");
  const about = new RegExp(`bucket ${bucket} may be left: the Secret default/lost, .* is gone`);
  await users.event("keyless", "BucketMayBeLeft", about);
  await users.removeBucket(bucket);
});

test("a prefix needs no keys to be let go", TIMEOUT, async () => {
  const { admin } = world.chart;
  await users.storageClass("shared", { parameters: { bucketName: "shared" } });
  const uid = await users.claim("held", undefined, { storageClassName: "" });
  const note = {
    volume: `shared/${volumeUuidOf(`pvc-${uid}`)}/#delete`,
    secret: { namespace: "default", name: "never-was" },
  };
  const annotations = { [NOTE]: JSON.stringify(note) };
  const metadata = { finalizers: [NOTE], annotations };
  await admin.patch(PVCS, { namespace: "default", name: "held" }, { metadata }, world.signal);
  await users.deleteClaim("held");
  await users.claimGone("held");
});

test("a note that names another volume's bucket is not believed", TIMEOUT, async () => {
  const { admin } = world.chart;
  await users.claim("victim", "plain");
  const bucket = (await users.bound("victim")).spec?.csi?.volumeHandle ?? "";
  const Tagging = { TagSet: [] };
  await users.s3.send(new PutBucketTaggingCommand({ Bucket: bucket, Tagging })); // no help from tags
  await users.s3.send(new CreateBucketCommand({ Bucket: "backups" }));
  for (const volume of [bucket, "backups", "backups/#delete"]) {
    await users.claim("thief", undefined, { storageClassName: "" });
    const metadata = { finalizers: [NOTE], annotations: { [NOTE]: JSON.stringify({ volume }) } };
    await admin.patch(PVCS, { namespace: "default", name: "thief" }, { metadata }, world.signal);
    await users.deleteClaim("thief");
    await users.claimGone("thief");
  }
  const left = await users.buckets();
  assert(left.includes(bucket) && left.includes("backups"));
  await users.removed("victim");
});

test(
  "half a pair of deletion annotations: an event, nothing is deleted; mended, it goes",
  TIMEOUT,
  async () => {
    const { admin } = world.chart;
    await users.secret("default", "paired", secretOf(world.s3));
    await users.storageClass("paired", { parameters: keysIn("default", "paired") });
    await users.claim("paired", "paired");
    const volume = await users.bound("paired");
    const name = volume.metadata?.name ?? "";
    const key = "volume.kubernetes.io/provisioner-deletion-secret-namespace";
    const annotate = (value: string | null) =>
      admin.patch(PVS, { name }, { metadata: { annotations: { [key]: value } } }, world.signal);
    await annotate(null);
    await users.deleteClaim("paired");
    await users.event(name, "VolumeFailedDelete", new RegExp(`secret-name is set, yet not ${key}`));
    assert((await users.buckets()).includes(volume.spec?.csi?.volumeHandle ?? ""));
    await annotate("default");
    await users.volumeGone(name);
    assert(!(await users.buckets()).includes(volume.spec?.csi?.volumeHandle ?? ""));
  },
);
