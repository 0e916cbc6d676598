import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { Failure } from "../base/failure.ts";
import { attachmentNameOf } from "../volume/attachment.ts";
import type { Cluster } from "./cluster.ts";
import type { Attachment, MountpointPod, Volume } from "./facts.ts";
import { NamespaceLimit } from "./namespace-limit.ts";
import { Reconciler } from "./reconciler.ts";
import { sharingKeyOf } from "./sharing-key.ts";
import { World } from "./world.ts";
import { TEST_POD, TEST_WORKLOAD } from "./test-facts.ts";

const volume: Volume = {
  name: "pv",
  uid: "pv-uid",
  volumeId: "v",
  mountOptions: [],
  attributes: { bucketName: "bucket" },
  claimKey: "ns/c",
  claimUid: "c-uid",
};
const workload = TEST_WORKLOAD;
const key = sharingKeyOf(workload, volume);
const name = attachmentNameOf(key, volume.uid);
const attachment = (version: string, lists: Record<string, string[]>): Attachment => {
  const listed = Object.entries(lists).map(([pod, uids]) => {
    return [pod, uids.map((workloadPodUID) => ({ workloadPodUID, attachmentTime: "" }))] as const;
  });
  const spec = { ...key, mountpointS3PodAttachments: Object.fromEntries(listed) };
  return { name, uid: "a", resourceVersion: version, spec };
};
/** A pod that the attachment does not list: a reason to read the attachment from the API server. */
const leftOver: MountpointPod = {
  ...TEST_POD,
  name: "mp-old",
  attachment: name,
  workloadUid: "w0",
  mountId: "mp-old",
};

/** Reconciles while the watches tell of something; returns the names of the calls that write. */
async function reconcile(meanwhile: (world: World, limit: NamespaceLimit) => void) {
  const world = new World(() => {});
  const limit = new NamespaceLimit({ world, limit: 2, engine: "s3csi", enqueue: () => {} });
  const claim = { namespace: "ns", name: "c", uid: "c-uid", volumeName: "pv" };
  limit.changed(world.claimChanged("ns/c", claim));
  limit.changed(world.volumeChanged("pv", volume, undefined));
  limit.changed(world.workloadChanged(workload, undefined));
  limit.changed(world.podChanged(leftOver.name, leftOver, undefined));
  const writes: string[] = [];
  const write = (call: string) => () => {
    writes.push(call);
    return Promise.resolve();
  };
  const cluster: Cluster = {
    findAttachment(one) {
      const found = world.attachment(one);
      meanwhile(world, limit);
      return Promise.resolve(found);
    },
    findPod: (one) => Promise.resolve(world.pod(one)),
    liveUids: () => Promise.resolve(new Set()),
    settingsHashFor: () => "",
    createPod: write("createPod"),
    markPod: write("markPod"),
    deletePod: write("deletePod"),
    createAttachment: write("createAttachment"),
    updateAttachment: write("updateAttachment"),
    writeStatus: write("writeStatus"),
    deleteAttachment: write("deleteAttachment"),
  };
  const reconciler = new Reconciler({
    world,
    limit,
    cluster,
    driverVersion: "1",
    engine: "s3csi",
    log: pino({ level: "silent" }),
    nowMs: () => 0,
    tell: () => Promise.resolve(),
  });
  await reconciler.reconcile(name, AbortSignal.timeout(10_000), true);
  return writes;
}

test("a workload gets a Mountpoint Pod beside one that another workload has left", async () => {
  assert.deepEqual(await reconcile(() => {}), ["createPod", "createAttachment"]);
});

test("a workload that leaves while the API server is asked gets no Mountpoint Pod", async () => {
  const writes = await reconcile((world, limit) => {
    const finished = { ...leftOver, finished: true };
    limit.changed(world.podChanged(leftOver.name, finished, leftOver));
    limit.changed(world.workloadChanged(undefined, workload));
  });
  assert.deepEqual(writes, ["deletePod"], "the pod has finished meanwhile");
});

test("an attachment that changes while it is observed is observed again", async () => {
  const again = reconcile((world, limit) => {
    const now = attachment("2", { [leftOver.name]: [workload.uid] });
    limit.changed(world.attachmentChanged(name, now, undefined));
  });
  await assert.rejects(again, (error) => error instanceof Failure && error.kind === "stale");
});
