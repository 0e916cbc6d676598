import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../../src/base/log.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeAccess } from "../../src/kube/kube-access.ts";
import type { HeadroomSettings } from "../../src/reconciler/headroom.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import type { InstalledChart } from "./control-plane.ts";
import { Bench, POD_SETTINGS, log } from "./objects.ts";

export interface Scene extends AsyncDisposable {
  readonly bench: Bench;
  readonly signal: AbortSignal;
}

/** Who makes the user's objects, and one controller that has to last until the end. */
export async function startScene(
  chart: InstalledChart,
  access: KubeAccess = chart.accessOf("s3-csi-driver-controller-sa"),
  controllerLog: Log = log,
  headroom?: HeadroomSettings,
): Promise<Scene> {
  const stop = new AbortController();
  const { signal } = stop;
  const bench = new Bench(chart.admin, signal);
  await bench.start();
  const client = new KubeClient(access);
  const pods = { mountpointPods: POD_SETTINGS, ...(headroom && { headroom }) };
  const settings = { ...pods, republish: true };
  const options = { client, ...settings, instance: "c", log: controllerLog };
  const reconciling = startReconciler(options, signal);
  return {
    bench,
    signal,
    async [Symbol.asyncDispose]() {
      const state = await Promise.race([reconciling, delay(0, "goes on")]);
      stop.abort();
      await reconciling;
      client[Symbol.dispose]();
      assert.equal(state, "goes on", "no controller ends by itself");
    },
  };
}
