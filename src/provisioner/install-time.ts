import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "../kube/back-off.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { CONFIG_MAPS } from "../kube/resource.ts";

/** An object of the chart that Helm creates before any StorageClass, and that nobody owns. */
export const INSTALL_CONFIG_MAP = "s3csi-install";

export interface InstallTimeOptions {
  readonly client: Pick<KubeClient, "find">;
  /** Of the release. */
  readonly namespace: string;
  readonly log: Log;
}

const BACK_OFF_FIRST_MS = 200;
const BACK_OFF_MAX_MS = 10_000;

/**
 * When this driver was installed. NaN where that can't be known, which makes no class older: to
 * ignore what somebody has mistyped does more harm than to refuse it. Waits for the API server
 * until the signal aborts.
 */
export async function installTimeOf(
  { client, namespace, log }: InstallTimeOptions,
  signal: AbortSignal,
): Promise<number> {
  const place = { namespace, name: INSTALL_CONFIG_MAP };
  const backOff = new BackOff(BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS);
  while (!signal.aborted) {
    try {
      const found = await client.find(CONFIG_MAPS, place, signal);
      if (found !== undefined) return Date.parse(found.metadata?.creationTimestamp ?? "");
      log.warn({ configMap: `${namespace}/${place.name}` }, "install time unknown");
      return NaN;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (signal.aborted) break;
      log.warn({ err: error }, "install time not read");
      if (error.kind === "denied") return NaN;
      await delay(backOff.nextMs(), undefined, { signal }).catch(() => undefined);
    }
  }
  return NaN;
}
