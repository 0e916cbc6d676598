import assert from "node:assert/strict";
import { test } from "node:test";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import { installChart } from "./control-plane.ts";
import { FaultyServer } from "./faulty-server.ts";
import { Bench, POD_SETTINGS, log } from "./objects.ts";

const VOLUMES = ["fault-a", "fault-b"];
/** FULL=1: more than a minute of it. */
const WORKLOADS = process.env["FULL"] === "1" ? 120 : 12;

test(
  "429, 500, 410 and lost answers: the controller goes on, without a restart and without duplicates",
  { timeout: 300_000 },
  async () => {
    const stop = new AbortController();
    await using chart = await installChart();
    const bench = new Bench(chart.admin, stop.signal);
    await bench.start();
    for (const volume of VOLUMES) await bench.volume(volume);
    await using faulty = new FaultyServer(chart.accessOf("s3-csi-driver-controller-sa"));
    using client = new KubeClient(await faulty.access());
    const quiet = log.child({}, { level: "fatal" }); // faults are the point here
    const options = { client, mountpointPods: POD_SETTINGS, instance: "faulty", log: quiet };
    const reconciling = startReconciler(options, stop.signal);

    await bench.served(await bench.workload("before", "fault-a"));
    faulty.start();
    const names = Array.from({ length: WORKLOADS }, (_, i) => `w-${i}`);
    const places = [];
    for (const [i, name] of names.entries()) {
      const uid = await bench.workload(name, VOLUMES[i % 2] ?? "");
      places.push(await bench.served(uid));
    }
    const pods = new Set(places.map((place) => place.pod));
    assert.equal(pods.size, VOLUMES.length, "one Mountpoint Pod per volume, in spite of it all");
    await Promise.all(["before", ...names].map((name) => bench.removeWorkload(name)));
    await bench.nothingIsLeft();
    faulty.stop();
    await bench.served(await bench.workload("after", "fault-b"));
    for (const [kind, count] of Object.entries(faulty.given)) {
      assert(count > 0, `the test has made a fault of kind ${kind}`);
    }
    stop.abort();
    await reconciling;
  },
);
