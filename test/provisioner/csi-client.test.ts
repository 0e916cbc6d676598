import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { CreateBucketCommand, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { createClient } from "@connectrpc/connect";
import type { Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Controller } from "../../src/csi/gen/csi_pb.ts";
import { socketPathOf } from "../../src/csi/serve.ts";
import { PVS } from "../../src/kube/resource.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { startController } from "../sanity/controller-process.ts";
import { environmentOf } from "./objects.ts";
import type { Users } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 60_000 };
/** The built-in provisioner makes the volumes and leaves their deletion to the test. */
const RETAIN = { reclaimPolicy: "Retain" } as const;

const owned = new AsyncDisposableStack();
let world: ProvisioningWorld;
let users: Users;
let controller: Client<typeof Controller>;
before(async () => {
  world = owned.use(await startWorld());
  ({ users } = world);
  const flags = [`--kubeconfig=${world.chart.kubeconfig}`, "--provision=false"];
  const { endpoint } = owned.use(await startController(environmentOf(world.s3), flags));
  const nodeOptions = { createConnection: () => connect(socketPathOf(endpoint)) };
  controller = createClient(
    Controller,
    createGrpcTransport({ baseUrl: "http://localhost", nodeOptions }),
  );
  await users.storageClass("emptied", { ...RETAIN, parameters: { onDelete: "delete" } });
  const parameters = { bucketName: "shared", prefix: "team" };
  await users.s3.send(new CreateBucketCommand({ Bucket: "shared" }));
  await users.storageClass("prefixes", { ...RETAIN, parameters });
  await users.storageClass("emptied-prefixes", {
    ...RETAIN,
    parameters: { ...parameters, onDelete: "delete" },
  });
}, TIMEOUT);
after(() => owned.disposeAsync());

async function volumeFor(claim: string, className: string) {
  await users.claim(claim, className);
  const { metadata, spec } = await users.bound(claim);
  return { pv: metadata?.name ?? "", volumeId: spec?.csi?.volumeHandle ?? "" };
}

async function keysIn(Bucket: string): Promise<(string | undefined)[]> {
  const { Contents = [] } = await users.s3.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key }) => Key);
}

/** As csi-provisioner does: the handle is all that the driver is told. */
const deleteVolume = (volumeId: string) => controller.deleteVolume({ volumeId });

async function removePv(name: string): Promise<void> {
  await world.chart.admin.delete(PVS, { name }, {}, world.signal);
  await users.volumeGone(name);
}

test(
  "DeleteVolume without a PV's name keeps the bucket of a PV that is bound",
  TIMEOUT,
  async () => {
    const { volumeId, pv } = await volumeFor("in-use", "emptied");
    await users.put(volumeId, "k");
    await deleteVolume(volumeId);
    assert.deepEqual(await keysIn(volumeId), ["k"]);
    await users.deleteClaim("in-use");
    await users.released(pv);
    await deleteVolume(volumeId);
    assert(!(await users.buckets()).includes(volumeId));
  },
);

test("the copy of a PV under another name deletes nothing of the first", TIMEOUT, async () => {
  const { volumeId, pv } = await volumeFor("victim", "emptied");
  await users.put(volumeId, "k");
  await users.forge("copy", volumeId, { persistentVolumeReclaimPolicy: "Retain" });
  await users.released("copy");
  await deleteVolume(volumeId);
  await users.deleteClaim("victim");
  await users.released(pv);
  await deleteVolume(volumeId);
  await removePv(pv);
  await deleteVolume(volumeId);
  assert.deepEqual(await keysIn(volumeId), ["k"]);
  await removePv("copy");
  await deleteVolume(volumeId);
  assert.deepEqual(await keysIn(volumeId), ["k"], "without a PV nobody vouches for the request");
  await users.removeBucket(volumeId);
});

test("a forged handle of a prefix deletes nothing below it", TIMEOUT, async () => {
  const { volumeId, pv } = await volumeFor("retained", "prefixes");
  const key = `team/${volumeUuidOf(pv)}/k`;
  await users.put("shared", key);
  const forged = `${volumeId}#delete`;
  await users.forge("forged", forged, { persistentVolumeReclaimPolicy: "Retain" });
  await users.released("forged");
  await deleteVolume(forged);
  await removePv("forged");
  await deleteVolume(forged);
  assert.deepEqual(await keysIn("shared"), [key]);
});

test("a prefix with onDelete delete goes with the PV that it was made for", TIMEOUT, async () => {
  const { volumeId, pv } = await volumeFor("part", "emptied-prefixes");
  const key = `team/${volumeUuidOf(pv)}/k`;
  await users.put("shared", key);
  await deleteVolume(volumeId);
  assert((await keysIn("shared")).includes(key));
  await users.deleteClaim("part");
  await users.released(pv);
  await deleteVolume(volumeId);
  assert(!(await keysIn("shared")).includes(key));
});
