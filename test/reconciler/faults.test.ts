import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../../src/base/failure.ts";
import type { KubeAccess } from "../../src/kube/kube-access.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { FaultyServer } from "./faulty-server.ts";
import { log } from "./objects.ts";
import type { Bench } from "./objects.ts";
import { startScene } from "./scene.ts";
import type { Scene } from "./scene.ts";

const ACCOUNT = "s3-csi-driver-controller-sa";
const VOLUMES = ["fault-a", "fault-b"];
/** FULL=1: more than a minute of it. */
const FULL = process.env["FULL"] === "1";
const WORKLOADS = FULL ? 120 : 12;
const OUTAGE_MS = FULL ? 60_000 : 3_000;
const TIMEOUT = { timeout: 400_000 };

const volumeOf = (i: number) => VOLUMES[i % VOLUMES.length] ?? "";
const namesOf = (prefix: string) => Array.from({ length: WORKLOADS }, (_, i) => `${prefix}-${i}`);

/** Faults are the point here: the controller need not tell of them. */
async function startQuietScene(chart: InstalledChart, access: KubeAccess): Promise<Scene> {
  const scene = await startScene(chart, access, log.child({}, { level: "fatal" }));
  for (const volume of VOLUMES) await scene.bench.volume(volume);
  return scene;
}

/** Each of them in one place, and all of a volume in the same. */
async function assertServedOnce(bench: Bench, uids: readonly string[]): Promise<void> {
  const places = await Promise.all(uids.map((uid) => bench.served(uid)));
  const pods = new Set(places.map((place) => place.pod));
  assert.equal(pods.size, VOLUMES.length, "one Mountpoint Pod per volume, in spite of it all");
  const specs = Array.from(bench.attachments.values(), ({ spec }) => spec);
  const listed = specs.flatMap((spec) => Object.values(spec.mountpointS3PodAttachments).flat());
  const served = listed.map((entry) => entry.workloadPodUID).filter((uid) => uids.includes(uid));
  assert.equal(served.length, uids.length, "nobody is attached twice");
}

test(
  "429, 500, 410 and lost answers: the controller goes on, without a restart and without duplicates",
  TIMEOUT,
  async () => {
    await using chart = await installChart();
    await using faulty = new FaultyServer(chart.accessOf(ACCOUNT));
    await using scene = await startQuietScene(chart, await faulty.access());
    const { bench } = scene;
    await bench.served(await bench.workload("before", "fault-a"));
    faulty.start("some");
    const names = namesOf("w");
    const uids = [];
    for (const [i, name] of names.entries()) {
      const uid = await bench.workload(name, volumeOf(i));
      await bench.served(uid);
      uids.push(uid);
    }
    await assertServedOnce(bench, uids);
    await Promise.all(["before", ...names].map((name) => bench.removeWorkload(name)));
    await bench.nothingIsLeft();
    faulty.stop();
    await bench.served(await bench.workload("after", "fault-b"));
    for (const [kind, count] of Object.entries(faulty.given)) {
      assert(count > 0, `the test has made a fault of kind ${kind}`);
    }
  },
);

test("an outage of 429 and 500 on every call is caught up with", TIMEOUT, async () => {
  await using chart = await installChart();
  await using faulty = new FaultyServer(chart.accessOf(ACCOUNT));
  await using scene = await startQuietScene(chart, await faulty.access());
  const { bench } = scene;
  const leaving = namesOf("early");
  const early = await Promise.all(leaving.map((name, i) => bench.workload(name, volumeOf(i))));
  await assertServedOnce(bench, early);
  faulty.start("all");
  const over = delay(OUTAGE_MS);
  await Promise.all(leaving.map((name) => bench.removeWorkload(name)));
  const names = namesOf("late");
  const late = await Promise.all(names.map((name, i) => bench.workload(name, volumeOf(i))));
  await over;
  faulty.stop();
  await assertServedOnce(bench, late);
  await Promise.all(names.map((name) => bench.removeWorkload(name)));
  await bench.nothingIsLeft();
});

test("the API server is killed again and again while workloads come and go", TIMEOUT, async () => {
  await using chart = await installChart();
  await using scene = await startQuietScene(chart, chart.accessOf(ACCOUNT));
  const { bench } = scene;
  let back = Promise.resolve();
  /** As a user does whose command failed: once more, when the server is there again. */
  const insist = async <T>(work: () => Promise<T>, done: (error: Failure) => T | undefined) => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        const result = done(error);
        if (result !== undefined) return result;
        assert.equal(error.kind, "remote", error.message);
        await back;
      }
    }
  };
  const names = namesOf("w");
  const uids: string[] = [];
  for (const [i, name] of names.entries()) {
    if (i % 12 === 3) back = chart.restartApiServer();
    const made = await insist(
      () => bench.workload(name, volumeOf(i)),
      ({ kind }) => (kind === "conflict" ? "" : undefined),
    );
    uids.push(
      made === ""
        ? await insist(
            () => bench.uidOf(name),
            () => undefined,
          )
        : made,
    );
    if (i % 12 === 0) await bench.served(uids[i] ?? "");
  }
  await back;
  await assertServedOnce(bench, uids);
  for (const [i, name] of names.entries()) {
    if (i % 12 === 3) back = chart.restartApiServer();
    await insist(
      async () => {
        await bench.removeWorkload(name);
        return true;
      },
      ({ kind }) => kind === "absent" || undefined,
    );
  }
  await back;
  await bench.nothingIsLeft();
});
