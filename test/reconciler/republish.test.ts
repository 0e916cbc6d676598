import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CSI_DRIVERS, PVS } from "../../src/kube/resource.ts";
import type { CsiDriver } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import { DRIVER_NAME } from "../../src/volume/names.ts";
import { CHART, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { log } from "./objects.ts";
import type { Bench } from "./objects.ts";
import { startScene } from "./scene.ts";

const TIMEOUT = { timeout: 60_000 };
const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let bench: Bench;
let signal: AbortSignal;
let drivers: WatchedList<boolean, CsiDriver>;
/** Each value that the object had, in its order. */
const seen: boolean[] = [];

before(async () => {
  chart = owned.use(await installChart());
  ({ bench, signal } = owned.use(await startScene(chart)));
  drivers = new WatchedList({
    client: chart.admin,
    log,
    resource: CSI_DRIVERS,
    project: ({ spec }) => spec.requiresRepublish === true,
  });
  drivers.onChange((_key, now) => void (now !== undefined && seen.push(now)));
  drivers.start(signal).catch((error: unknown) => log.error(error));
  await drivers.synced;
}, TIMEOUT);
after(() => owned.disposeAsync());

async function untilRepublish(wanted: boolean): Promise<void> {
  await drivers.until((list) => list.get(DRIVER_NAME) === wanted || undefined, signal);
}

async function volumeWithSecret(name: string): Promise<void> {
  const volume = {
    metadata: { name },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteMany"],
      csi: {
        driver: DRIVER_NAME,
        volumeHandle: name,
        volumeAttributes: { bucketName: "bucket", authenticationSource: "secret" },
        nodePublishSecretRef: { namespace: "default", name: "keys" },
      },
    },
  };
  await chart.admin.create(PVS, volume, signal);
}

test("kubelets repeat publishes while there is a volume with a Secret", TIMEOUT, async () => {
  assert.deepEqual(seen, [false], "the chart leaves it to the controller");
  await bench.volume("without"); // it has no Secret, and does not count
  await volumeWithSecret("one");
  await untilRepublish(true);
  await volumeWithSecret("two");
  await chart.admin.delete(PVS, { name: "one" }, {}, signal);
  await chart.admin.delete(PVS, { name: "two" }, {}, signal);
  await untilRepublish(false);
  assert.deepEqual(seen, [false, true, false], "once each");
});

test("and while there is a mount that has lost an engine", TIMEOUT, async () => {
  await bench.volume("lossy");
  const { attachment, pod } = await bench.served(await bench.workload("user", "lossy"));
  const status = { mountpointPods: { [pod]: { lastError: "killed", restartsSurvived: 0 } } };
  await chart.admin.patchStatus(ATTACHMENTS, { name: attachment }, { status }, signal);
  await untilRepublish(true);
  await bench.removeWorkload("user");
  await untilRepublish(false);
});

test("who sets it otherwise is not listened to; an upgrade leaves it alone", TIMEOUT, async () => {
  await volumeWithSecret("three");
  await untilRepublish(true);
  const told = seen.length;
  await chart.helm("upgrade", "s3csi", CHART);
  assert.equal(seen.length, told, "not even for a moment");
  const name = DRIVER_NAME;
  await chart.admin.patch(CSI_DRIVERS, { name }, { spec: { requiresRepublish: false } }, signal);
  await untilRepublish(true);
  await chart.admin.delete(PVS, { name: "three" }, {}, signal);
  await untilRepublish(false);
});
