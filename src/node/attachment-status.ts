import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ATTACHMENTS } from "../volume/attachment.ts";
import type { MountpointPodStatus } from "../volume/attachment.ts";
import { engineOf } from "../volume/engine.ts";
import type { MountNews } from "./kept-mount.ts";

export interface AttachmentStatusOptions {
  readonly client: Pick<KubeClient, "patchStatus">;
  readonly engineVersion: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly atMostEveryMs?: number;
}

/** An engine that is killed again and again must not keep the API server busy. */
const AT_MOST_EVERY_MS = 10_000;

/** Tells what became of a mount in `kubectl get s3pa -o yaml`: the last word counts. */
export class AttachmentStatusWriter {
  readonly #options: AttachmentStatusOptions;
  /** By attachment, what is still to be written; there while its turn is not over. */
  readonly #pending = new Map<string, Record<string, MountpointPodStatus>>();

  constructor(options: AttachmentStatusOptions) {
    this.#options = options;
  }

  /** Best effort: it never fails its cause. */
  news({ pod, cause, recoveries }: MountNews): void {
    const { engineVersion } = this.#options;
    const version = engineOf(pod.mountId) === "s3csi" ? { engineVersion } : {};
    const status = { ...version, restartsSurvived: recoveries, lastError: cause };
    const turn = this.#pending.get(pod.attachment);
    const pods = { ...turn, [pod.name]: status };
    this.#pending.set(pod.attachment, pods);
    if (turn === undefined) void this.#write(pod.attachment);
  }

  async #write(attachment: string): Promise<void> {
    const { client, signal, log, atMostEveryMs = AT_MOST_EVERY_MS } = this.#options;
    for (;;) {
      const mountpointPods = this.#pending.get(attachment) ?? {};
      if (signal.aborted || Object.keys(mountpointPods).length === 0) break;
      this.#pending.set(attachment, {});
      try {
        const patch = { status: { mountpointPods } };
        await client.patchStatus(ATTACHMENTS, { name: attachment }, patch, signal);
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        log.debug({ attachment, err: error }, "an attachment's status was not written");
      }
      await sleep(atMostEveryMs, undefined, { signal, ref: false }).catch(() => {});
    }
    this.#pending.delete(attachment);
  }
}
