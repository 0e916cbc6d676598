import type { EventText, EventWriter } from "../kube/event-writer.ts";
import { boundWorkloads } from "./binds.ts";
import type { ClusterView, NodePod } from "./cluster-view.ts";
import type { MountNews } from "./kept-mount.ts";

export interface NodeEventsOptions {
  readonly view: Pick<ClusterView, "pod">;
  readonly events: EventWriter;
  readonly kubeletPath: string;
  readonly signal: AbortSignal;
}

/** A mounter chooses its words, so that each could be new: no more than this of one. */
const RECOVERED_AT_MOST_EVERY_MS = 10_000;

/** What happens to mounts, told where people look: at their workloads, and at Mountpoint Pods. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;
  /** Mountpoint Pods of whose recovery was told a short while ago, by UID. */
  readonly #told = new Set<string>();

  constructor(options: NodeEventsOptions) {
    this.#options = options;
  }

  /** Something in the volume's settings does not work as its author thought. */
  warn(workloadUid: string, note: string): void {
    this.#about(workloadUid, {
      type: "Warning",
      reason: "MountOptionIgnored",
      action: "MountVolume",
      note,
    });
  }

  news({ what, source, pod, cause }: MountNews): void {
    if (what !== "given up") {
      if (!this.#isTurnOf(pod.uid)) return;
      const note = `${what === "recovered" ? "a new engine" : "this container"} goes on: ${cause}`;
      this.#about(pod.uid, { type: "Normal", reason: "MountRecovered", action: "Serve", note });
      return;
    }
    const note = `the volume is lost, restart the pod: ${cause}`;
    for (const uid of boundWorkloads(source, this.#options.kubeletPath)) {
      this.#about(uid, { type: "Warning", reason: "VolumeGivenUp", action: "Serve", note });
    }
  }

  #isTurnOf(podUid: string): boolean {
    if (this.#told.has(podUid)) return false;
    this.#told.add(podUid);
    setTimeout(() => this.#told.delete(podUid), RECOVERED_AT_MOST_EVERY_MS).unref();
    return true;
  }

  #about(podUid: string, text: EventText): void {
    const { view, events, signal } = this.#options;
    const pod = view.pod(podUid);
    if (pod !== undefined) void events.write(regarding(pod), text, signal);
  }
}

function regarding({ namespace, name, uid }: NodePod) {
  return { apiVersion: "v1", kind: "Pod", namespace, name, uid };
}
