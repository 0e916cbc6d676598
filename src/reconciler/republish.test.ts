import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../base/pino-log.ts";
import type { MountpointS3PodAttachment } from "../volume/attachment.ts";
import { attachmentOf, volumeOf } from "./facts.ts";
import { driverOf, RepublishKeeper } from "./republish.ts";

const never = new AbortController().signal;

function keeperOf() {
  const written: boolean[] = [];
  let asked = 0;
  const keeper = new RepublishKeeper({
    enqueue: () => void (asked += 1),
    log: createLog("error", {}),
    async write(requiresRepublish) {
      written.push(requiresRepublish);
    },
  });
  /** What a queue does: works as often as it was asked, and the watch tells what was written. */
  const settle = async () => {
    for (; asked > 0; asked -= 1) {
      const before = written.length;
      await keeper.work(never);
      if (written.length > before) keeper.driverChanged(driver(written.at(-1)));
    }
  };
  return { keeper, written, settle };
}

const driver = (requiresRepublish?: boolean) =>
  driverOf({ spec: { ...(requiresRepublish !== undefined && { requiresRepublish }) } });

function volume(secret: boolean) {
  const nodePublishSecretRef = { namespace: "ns", name: "keys" };
  const csi = { driver: "s3.csi.scality.com", volumeHandle: "v" };
  return volumeOf({ spec: { csi: { ...csi, ...(secret && { nodePublishSecretRef }) } } });
}

function attachment(status: MountpointS3PodAttachment["status"]) {
  const spec = {} as MountpointS3PodAttachment["spec"];
  const kind = { apiVersion: "s3.csi.scality.com/v2", kind: "MountpointS3PodAttachment" } as const;
  return attachmentOf({ ...kind, metadata: { name: "a" }, spec, ...(status && { status }) });
}

test("said while the first and until the last of them needs it, and never twice", async () => {
  const { keeper, written, settle } = keeperOf();
  keeper.driverChanged(driver());
  keeper.volumeChanged("plain", volume(false));
  await settle();
  assert.deepEqual(written, []);
  keeper.volumeChanged("one", volume(true));
  keeper.volumeChanged("two", volume(true));
  keeper.attachmentChanged("a", attachment({ mountpointPods: { "mp-1": { lastError: "x" } } }));
  await settle();
  assert.deepEqual(written, [true]);
  keeper.volumeChanged("one", undefined);
  keeper.volumeChanged("two", volume(false));
  await settle();
  assert.deepEqual(written, [true]);
  keeper.attachmentChanged("a", attachment({ phase: "Mounted" }));
  await settle();
  assert.deepEqual(written, [true, false]);
});

test("what others write is put right; without the object there is nothing to write to", async () => {
  const { keeper, written, settle } = keeperOf();
  keeper.volumeChanged("one", volume(true));
  await settle();
  assert.deepEqual(written, []);
  keeper.driverChanged(driver(true));
  await settle();
  assert.deepEqual(written, []);
  keeper.driverChanged(driver(false));
  await settle();
  assert.deepEqual(written, [true]);
});
