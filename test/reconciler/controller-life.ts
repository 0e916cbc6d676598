import { KubeClient } from "../../src/kube/kube-client.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import type { ReconcilerRunOptions } from "../../src/reconciler/run.ts";
import type { InstalledChart } from "./control-plane.ts";
import { POD_SETTINGS, log } from "./objects.ts";

/**
 * Starts the reconciler with the controller's rights. Its life ends when it is disposed, or with
 * the signal of the file: a test that has timed out disposes nothing.
 */
export function startController(
  chart: InstalledChart,
  signal: AbortSignal,
  options: Partial<ReconcilerRunOptions> = {},
): AsyncDisposable {
  const end = new AbortController();
  const client = new KubeClient(chart.accessOf("s3-csi-driver-controller-sa"));
  const defaults = { client, mountpointPods: POD_SETTINGS, instance: "c", log };
  const reconciling = startReconciler(
    { ...defaults, ...options },
    AbortSignal.any([signal, end.signal]),
  );
  return {
    async [Symbol.asyncDispose]() {
      end.abort();
      await reconciling;
      client[Symbol.dispose]();
    },
  };
}
