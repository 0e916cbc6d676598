import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  CreateBucketCommand,
  GetBucketTaggingCommand,
  ListObjectsV2Command,
} from "@aws-sdk/client-s3";
import { PVCS, PVS } from "../../src/kube/resource.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import type { Users } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const CHART = join(import.meta.dirname, "../../deploy/chart");
const TIMEOUT = { timeout: 60_000 };

let world: ProvisioningWorld;
let users: Users;
before(async () => {
  world = await startWorld();
  ({ users } = world);
}, TIMEOUT);
after(() => world?.[Symbol.asyncDispose]());

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
  await users.put(bucket, "k");
  await users.deleteClaim("full");
  await users.event(`pvc-${uid}`, "BucketKept", new RegExp(`${bucket} is kept: it is not empty`));
  await users.event("full", "BucketKept", /not empty/);
  await users.volumeGone(`pvc-${uid}`);
  assert.deepEqual(await users.buckets(), [bucket]);
  await users.removeBucket(bucket);
});

for (const [mode, name] of [
  ["ReadWriteOnce", "rwo"],
  ["ReadWriteOncePod", "rwop"],
  ["ReadOnlyMany", "rox"],
] as const) {
  test(`${mode} is bound`, TIMEOUT, async () => {
    await users.claim(name, "plain", { accessModes: [mode] });
    assert.deepEqual((await users.bound(name)).spec?.accessModes, [mode]);
    await users.removed(name);
  });
}

test("a claim waits for its consumer's node, if its class says so", TIMEOUT, async () => {
  await users.storageClass("late", { volumeBindingMode: "WaitForFirstConsumer" });
  await users.claim("late", "late");
  await users.event("late", "WaitForFirstConsumer", /waiting for first consumer/);
  assert.deepEqual(await users.buckets(), [], "nothing before the scheduler has chosen");
  const metadata = { annotations: { "volume.kubernetes.io/selected-node": "node-1" } };
  const place = { namespace: "default", name: "late" };
  await world.chart.admin.patch(PVCS, place, { metadata }, world.signal);
  await users.bound("late");
  await users.removed("late");
});

test("Retain keeps PV and bucket; a change to Retain on the PV too", TIMEOUT, async () => {
  await users.storageClass("retained", { reclaimPolicy: "Retain" });
  const { admin } = world.chart;
  await users.claim("kept", "retained");
  await users.claim("saved", "plain");
  const [kept, saved] = [await users.bound("kept"), await users.bound("saved")];
  const spec = { persistentVolumeReclaimPolicy: "Retain" };
  await admin.patch(PVS, { name: saved.metadata?.name ?? "" }, { spec }, world.signal);
  for (const volume of [kept, saved]) {
    const name = volume.metadata?.name ?? "";
    await users.deleteClaim(volume.spec?.claimRef?.name ?? "");
    await users.volumes.until(
      (list) => (list.get(name)?.status?.phase === "Released" ? true : undefined),
      world.signal,
    );
    await users.volumes.until((list) => {
      const finalizers = list.get(name)?.metadata?.finalizers ?? [];
      return finalizers.some((one) => one.startsWith("external-")) ? undefined : true;
    }, world.signal);
  }
  await users.claim("later", "plain"); // its whole life comes behind theirs in the queues
  await users.bound("later");
  await users.removed("later");
  const handles = [kept, saved].map((volume) => volume.spec?.csi?.volumeHandle ?? "");
  assert.deepEqual((await users.buckets()).toSorted(), handles.toSorted());
  for (const volume of [kept, saved]) {
    await admin.delete(PVS, { name: volume.metadata?.name ?? "" }, {}, world.signal);
    await users.removeBucket(volume.spec?.csi?.volumeHandle ?? "");
  }
});

test("a PV that is deleted before its claim still takes the bucket with it", TIMEOUT, async () => {
  const uid = await users.claim("backwards", "plain");
  await users.bound("backwards");
  await world.chart.admin.delete(PVS, { name: `pvc-${uid}` }, {}, world.signal);
  await users.removed("backwards");
  assert.deepEqual(await users.buckets(), []);
});

test("a static volume's bucket is never deleted", TIMEOUT, async () => {
  const bucket = `csi-s3-${volumeUuidOf("static")}`;
  await users.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const { admin } = world.chart;
  const common = { accessModes: ["ReadWriteMany"], storageClassName: "" };
  const capacity = { storage: "1Gi" };
  const csi = { driver: "s3.csi.scality.com", volumeHandle: bucket };
  const claimRef = { namespace: "default", name: "static" };
  const reclaim = { persistentVolumeReclaimPolicy: "Delete" };
  const spec = { ...common, ...reclaim, capacity, claimRef, csi };
  await admin.create(PVS, { metadata: { name: "static" }, spec }, world.signal);
  await users.claim("static", "", { volumeName: "static" });
  await users.bound("static");
  await users.deleteClaim("static");
  await users.volumes.until(
    (list) => (list.get("static")?.status?.phase === "Bound" ? undefined : true),
    world.signal,
  );
  await admin.delete(PVS, { name: "static" }, {}, world.signal);
  await users.volumeGone("static");
  assert.deepEqual(await users.buckets(), [bucket]);
  await users.removeBucket(bucket);
});

test("many claims in one bucket: a prefix each, kept or emptied", TIMEOUT, async () => {
  await users.s3.send(new CreateBucketCommand({ Bucket: "shared" }));
  const prefix = "${pvc.namespace}/${pvc.name}";
  const parameters = { bucketName: "shared", prefix };
  await users.storageClass("prefix", { parameters });
  await users.storageClass("prefix-emptied", { parameters: { ...parameters, onDelete: "delete" } });
  const uid = await users.claim("p-kept", "prefix");
  await users.claim("p-emptied", "prefix-emptied");
  const kept = await users.bound("p-kept");
  const emptied = await users.bound("p-emptied");
  const own = `default/p-kept/${volumeUuidOf(`pvc-${uid}`)}/`;
  assert.equal(kept.spec?.csi?.volumeHandle, `shared/${own}`);
  assert.equal(kept.spec?.csi?.volumeAttributes?.["prefix"], own);
  for (const volume of [kept, emptied]) {
    const place = volume.spec?.csi?.volumeAttributes?.["prefix"] ?? "";
    await Promise.all(["a", "b/c"].map((key) => users.put("shared", `${place}${key}`)));
  }
  await users.put("shared", "default/p-emptied/neighbour");
  await Promise.all([users.removed("p-kept"), users.removed("p-emptied")]);
  await users.event("p-kept", "BucketKept", /kept: onDelete is retain/);
  const { Contents } = await users.s3.send(new ListObjectsV2Command({ Bucket: "shared" }));
  assert.deepEqual(
    Contents?.map(({ Key }) => Key),
    ["default/p-emptied/neighbour", `${own}a`, `${own}b/c`],
  );
});

test("allowed topologies become the PV's node affinity", TIMEOUT, async () => {
  const matchLabelExpressions = [{ key: "topology.kubernetes.io/zone", values: ["a", "b"] }];
  await users.storageClass("zoned", { allowedTopologies: [{ matchLabelExpressions }] });
  await users.claim("zoned", "zoned");
  const { spec } = await users.bound("zoned");
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const zones = terms.map((term) => term.matchExpressions?.[0]?.values);
  assert.deepEqual(zones, [["a"], ["b"]]);
  await users.removed("zoned");
});

test("a claim before its class is bound when the class comes", TIMEOUT, async () => {
  await users.claim("early", "tomorrow");
  await users.storageClass("tomorrow");
  await users.bound("early");
  await users.removed("early");
});

test("the chart's own class, as the default one", TIMEOUT, async () => {
  const values = { create: true, isDefault: true, parameters: { bucketNamePrefix: "chart-" } };
  const json = `storageClass=${JSON.stringify(values)}`;
  await world.chart.helm("upgrade", "s3csi", CHART, "--set-json", json);
  await users.claim("by-default", undefined);
  const { spec } = await users.bound("by-default");
  assert.match(spec?.csi?.volumeHandle ?? "", /^chart-/);
  await users.removed("by-default");
});

test("the API server is away: work goes on when it is back", { timeout: 150_000 }, async () => {
  await users.claim("before", "plain");
  await users.bound("before");
  world.line.cut();
  await users.claim("during", "plain");
  await users.deleteClaim("before");
  const awayMs = process.env["FULL"] ? 60_000 : 3_000;
  await new Promise((resolve) => setTimeout(resolve, awayMs));
  world.line.mend();
  await users.bound("during");
  await users.claimGone("before");
  await users.removed("during");
  assert.deepEqual(
    (await users.buckets()).filter((name) => name.startsWith("csi-s3-")),
    [],
  );
});
