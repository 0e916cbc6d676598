import { release } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "../kube/back-off.ts";
import type { EventWriter } from "../kube/event-writer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { NODES } from "../kube/resource.ts";
import { cgroupVersion } from "../sys/cgroup-version.ts";
import { missingKernelCalls } from "../sys/kernel-calls.ts";
import { shortfallsOf } from "./platform.ts";
import type { Platform, Shortfall } from "./platform.ts";

export interface PlatformCheckOptions {
  readonly client: Pick<KubeClient, "find" | "serverVersion">;
  readonly nodeName: string;
  readonly events: Pick<EventWriter, "tryWrite">;
  readonly log: Log;
  /** Hears the result of the local checks first, then that of each check. */
  readonly found: (shortfalls: readonly Shortfall[]) => void;
  /** How often versions are read again: a kubelet or an API server may be upgraded in place. */
  readonly everyMs: number;
  /** The kernel and cgroup version of the node; default: those of this machine. */
  readonly local?: LocalPlatform;
}

export type LocalPlatform = Pick<Platform, "kernel" | "missingCalls" | "cgroupVersion">;

/** An API server deletes events after an hour by default. */
const EVENT_AGAIN_MS = 1_800_000;
const BACK_OFF_FIRST_MS = 1_000;
const BACK_OFF_MAX_MS = 60_000;

/** Compares the node with the supported platform; tells log, health and an event on the Node. */
export class PlatformCheck {
  readonly #options: PlatformCheckOptions;
  #platform: Platform;
  /** The text that was logged last. */
  #logged = "";
  /** The last event that was written, while it still holds. */
  #event: { readonly note: string; readonly atMs: number } | undefined;

  /** The local checks run at once, before the kubelet sends work, and need no API server. */
  constructor(options: PlatformCheckOptions) {
    this.#options = options;
    this.#platform = options.local ?? {
      kernel: release(),
      missingCalls: missingKernelCalls(),
      cgroupVersion: cgroupVersion(),
    };
    this.#report();
  }

  /** Checks again and again until the signal aborts. Rejects only for a bug. */
  async follow(signal: AbortSignal): Promise<void> {
    const { everyMs } = this.#options;
    const backOff = new BackOff(BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS);
    while (!signal.aborted) {
      const isComplete = await this.#check(signal);
      if (isComplete) backOff.reset();
      const waitMs = isComplete ? everyMs : Math.min(backOff.nextMs(), everyMs);
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /**
   * Resolves with whether both versions were read and the event is written. A version that could
   * not be read stays as it was read last.
   */
  async #check(signal: AbortSignal): Promise<boolean> {
    const { client, nodeName } = this.#options;
    const [node, version] = await Promise.all([
      this.#unlessFailed(client.find(NODES, { name: nodeName }, signal)),
      this.#unlessFailed(client.serverVersion(signal)),
    ]);
    if (signal.aborted) return false;
    const kubelet = node?.value?.status?.nodeInfo?.kubeletVersion ?? this.#platform.kubelet;
    const apiServer = version?.value ?? this.#platform.apiServer;
    this.#platform = { ...this.#platform, kubelet, apiServer };
    this.#report();
    const uid = node?.value?.metadata?.uid;
    const isTold = uid === undefined || (await this.#tell(uid, signal));
    return isTold && node !== undefined && version !== undefined;
  }

  async #unlessFailed<T>(read: Promise<T>): Promise<{ readonly value: T } | undefined> {
    try {
      return { value: await read };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#options.log.debug({ err: error }, "platform not checked yet");
      return undefined;
    }
  }

  #report(): void {
    const { found, log, nodeName } = this.#options;
    const { shortfalls, note, isSupported } = this.#state();
    found(shortfalls);
    if (note === this.#logged) return;
    this.#logged = note;
    if (note === "") return log.info({ node: nodeName }, "node has the supported platform");
    const fields = { node: nodeName, reason: note };
    log[isSupported ? "warn" : "error"](fields, "node is below the supported platform");
  }

  /** Writes the event, again from time to time; false: the next check has to try again. */
  async #tell(uid: string, signal: AbortSignal): Promise<boolean> {
    const { events, nodeName } = this.#options;
    const { note, isSupported } = this.#state();
    const nowMs = Date.now();
    const last = this.#event;
    if (last?.note === note && nowMs - last.atMs < EVENT_AGAIN_MS) return true;
    this.#event = undefined;
    if (note === "") return true;
    const regarding = { apiVersion: "v1", kind: "Node", name: nodeName, uid };
    const action = "CheckPlatform";
    const text = isSupported
      ? ({ type: "Normal", reason: "PlatformFallback", action, note } as const)
      : ({ type: "Warning", reason: "UnsupportedPlatform", action, note } as const);
    const isWritten = await events.tryWrite(regarding, text, signal);
    if (isWritten) this.#event = { note, atMs: nowMs };
    return isWritten;
  }

  #state() {
    const shortfalls = shortfallsOf(this.#platform);
    const note = shortfalls.map(({ words }) => words).join("; ");
    return { shortfalls, note, isSupported: shortfalls.every(({ level }) => level === "fallback") };
  }
}
