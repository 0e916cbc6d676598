import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "../kube/back-off.ts";
import type { JsonPatch, KubeClient } from "../kube/kube-client.ts";
import { CSI_NODES, NODES } from "../kube/resource.ts";
import type { KubeNode, CsiNode } from "../kube/resource.ts";
import { WatchedList } from "../kube/watched-list.ts";
import { STARTUP_TAINT } from "../volume/names.ts";

export interface StartupTaintOptions {
  readonly client: Pick<KubeClient, "get" | "patch" | "list" | "watch">;
  readonly nodeName: string;
  readonly driverName: string;
  readonly log: Log;
  /** The first wait after a failed try; it doubles up to BACK_OFF_MAX_MS. */
  readonly backOffMs?: number;
}

type Taint = NonNullable<NonNullable<KubeNode["spec"]>["taints"]>[number];

const BACK_OFF_FIRST_MS = 1_000;
const BACK_OFF_MAX_MS = 60_000;

/**
 * Takes the startup taint off our own Node each time the kubelet begins to list the driver: only
 * then does a workload that the scheduler sends here find a driver.
 */
export class StartupTaint {
  readonly #options: StartupTaintOptions;
  /** Holds the CSINode's uid while it lists the driver: a node made anew is another one. */
  readonly #listed: WatchedList<string, CsiNode>;

  constructor(options: StartupTaintOptions) {
    this.#options = options;
    const { client, log, nodeName, driverName } = options;
    this.#listed = new WatchedList({
      client,
      log,
      resource: CSI_NODES,
      selection: { fieldSelector: `metadata.name=${nodeName}` },
      project({ metadata, spec }: CsiNode) {
        const drivers = spec?.drivers ?? []; // the API server leaves an empty list out
        return drivers.some(({ name }) => name === driverName) ? metadata?.uid : undefined;
      },
    });
  }

  /** Resolves when the signal has aborted. Rejects only for a bug. */
  async follow(signal: AbortSignal): Promise<void> {
    let current = new AbortController();
    const { promise: bug, reject: failed } = Promise.withResolvers<never>();
    this.#listed.onChange((_name, now, before) => {
      if (now === before) return;
      current.abort();
      current = new AbortController();
      const whileListed = AbortSignal.any([signal, current.signal]);
      if (now !== undefined) this.#removeInTheEnd(whileListed).catch(failed);
    });
    await Promise.race([bug, this.#listed.start(signal)]);
  }

  async #removeInTheEnd(signal: AbortSignal): Promise<void> {
    const { log, nodeName, backOffMs = BACK_OFF_FIRST_MS } = this.#options;
    const backOff = new BackOff(backOffMs, BACK_OFF_MAX_MS);
    while (!signal.aborted) {
      try {
        const removed = await this.#remove(signal);
        if (removed) log.info({ node: nodeName, taint: STARTUP_TAINT }, "startup taint removed");
        return;
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        if (signal.aborted) return;
        const fields = { node: nodeName, err: error.message, attempt: backOff.failures };
        log.warn(fields, "startup taint not removed");
        await delay(backOff.nextMs(), undefined, { signal }).catch(() => undefined);
      }
    }
  }

  async #remove(signal: AbortSignal): Promise<boolean> {
    const { client, nodeName } = this.#options;
    const { spec } = await client.get(NODES, { name: nodeName }, signal);
    const patch = withoutStartupTaint(spec?.taints ?? []);
    if (patch === undefined) return false;
    await client.patch(NODES, { name: nodeName }, patch, signal);
    return true;
  }
}

/**
 * Whatever its effect, and nothing else: the patch is refused as a whole when somebody has changed
 * the taints meanwhile, so that none is lost or comes back. Other changes to the Node don't matter.
 */
function withoutStartupTaint(taints: readonly Taint[]): JsonPatch | undefined {
  const others = taints.filter(({ key }) => key !== STARTUP_TAINT);
  if (others.length === taints.length) return undefined;
  const path = "/spec/taints";
  return [
    { op: "test", path, value: taints },
    others.length === 0 ? { op: "remove", path } : { op: "replace", path, value: others },
  ];
}
