import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../../src/base/failure.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { Pod } from "../../src/kube/resource.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import { ANNOTATION } from "../../src/volume/names.ts";
import { CuttableLine, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { Bench, POD_SETTINGS, log } from "./objects.ts";

const VOLUMES = ["churn-a", "churn-b", "churn-c"];
const WORKLOADS_AT_ONCE = 12;
const ROUNDS = 4;

/** A controller with a line of its own to the API server. */
async function controller(chart: InstalledChart, instance: string) {
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  const line = new CuttableLine(access.server);
  const client = new KubeClient(await line.access(access));
  const stop = new AbortController();
  const options = {
    client,
    mountpointPods: POD_SETTINGS,
    instance,
    log: log.child({}, { level: "fatal" }), // faults are the point here
  };
  const running = startReconciler(options, stop.signal);
  return {
    line,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      client[Symbol.dispose]();
      await line[Symbol.asyncDispose]();
    },
  };
}

/** Scheduler, kubelet and node service for Mountpoint Pods. */
function playNode(bench: Bench): void {
  const next = async (pod: Pod) => {
    const name = pod.metadata?.name ?? "";
    if (pod.metadata?.deletionTimestamp !== undefined) return;
    if (pod.spec?.nodeName === undefined) await bench.runMountpointPod(name);
    else if (pod.status?.phase !== "Running") return;
    else if (pod.metadata?.annotations?.[ANNOTATION.needsUnmount] !== "true") return;
    else await bench.endMountpointPod(name, "Succeeded");
  };
  bench.mountpointPods.onChange((_key, pod) => {
    if (pod === undefined) return;
    next(pod).catch((error: unknown) => {
      if (!(error instanceof Failure)) throw error; // else: it changed meanwhile, and we hear of it
    });
  });
}

test(
  "two controllers whose lines are cut again and again serve everybody and leave nothing",
  { timeout: 120_000 },
  async () => {
    const stop = new AbortController();
    await using chart = await installChart();
    const bench = new Bench(chart.admin, stop.signal);
    await bench.start();
    playNode(bench);
    await using first = await controller(chart, "first");
    await using second = await controller(chart, "second");
    for (const volume of VOLUMES) await bench.volume(volume);

    for (let round = 0; round < ROUNDS; round += 1) {
      const names = Array.from({ length: WORKLOADS_AT_ONCE }, (_, i) => `w-${round}-${i}`);
      const line = round % 2 === 0 ? first.line : second.line;
      const arrivals = names.map(async (name, i) => {
        const uid = await bench.workload(name, VOLUMES[i % VOLUMES.length] ?? "");
        if (i === 3) line.cut();
        if (i === 8) line.mend();
        return bench.served(uid);
      });
      const places = await Promise.all(arrivals);
      line.mend();
      const attachments = new Set(places.map((place) => place.attachment));
      assert.equal(attachments.size, VOLUMES.length, "one attachment per volume, all on one node");
      line.cut();
      await Promise.all(names.map((name) => bench.removeWorkload(name)));
      line.mend();
    }
    await bench.nothingIsLeft();
    stop.abort();
  },
);
