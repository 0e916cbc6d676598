import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { AttachmentLists, Attachments } from "../volume/attachment.ts";
import type { Engine } from "../volume/engine.ts";
import { LATER } from "../kube/work-queue.ts";
import type { Outcome } from "../kube/work-queue.ts";
import { labelValueOf } from "../volume/names.ts";
import { apply } from "./apply.ts";
import type { Cluster } from "./cluster.ts";
import { isSameStatus, limitTroubles, refusedStatusOf, troublesOf } from "./attachment-status.ts";
import type { Trouble } from "./attachment-status.ts";
import { decide } from "./decide.ts";
import type { Action } from "./action.ts";
import type { Observed } from "./observed.ts";
import { isLasting } from "./lasting-failure.ts";
import type { NamespaceLimit } from "./namespace-limit.ts";
import { observe } from "./observe.ts";
import type { Workload } from "./facts.ts";
import type { World } from "./world.ts";

export interface ReconcilerOptions {
  readonly world: World;
  readonly cluster: Cluster;
  readonly driverVersion: string;
  readonly engine: Engine;
  readonly limit?: NamespaceLimit | undefined;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Best effort, and never the same twice in a row: for `kubectl describe pod`. */
  readonly tell: (trouble: Trouble) => Promise<void>;
}

/** Observe, decide, apply: for one attachment's name at a time. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #driverVersion: string;
  /** When a scheduled workload was first seen: the start of its time line. */
  readonly #scheduledMs = new Map<string, number>();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#driverVersion = labelValueOf(options.driverVersion);
  }

  workloadSeen(now: Workload | undefined, before: Workload | undefined): void {
    if (before !== undefined && before.uid !== now?.uid) this.#scheduledMs.delete(before.uid);
    if (now === undefined || now.ended) return;
    if (now.nodeName === "" || (before?.uid === now.uid && before.nodeName !== "")) return;
    this.#scheduledMs.set(now.uid, this.#options.nowMs());
  }

  /** What nobody waits for is left for a calm moment: LATER. */
  async reconcile(name: string, signal: AbortSignal, calm: boolean): Promise<Outcome> {
    const { world, cluster, engine, limit, nowMs } = this.#options;
    const startedMs = nowMs();
    const constants = { driverVersion: this.#driverVersion, engine, nowMs: startedMs };
    const attachment = world.attachment(name);
    const observed = await observe(name, world, cluster, constants, signal);
    if (world.attachment(name) !== attachment) throw new Failure("stale", "changed while observed");
    // A workload may have left while the API server was asked: no place is reserved for it.
    const staying = world.wanting(name).filter(({ terminating }) => !terminating);
    const uids = new Set(staying.map(({ uid }) => uid));
    const wanting = observed.wanting.filter(({ uid }) => uids.has(uid));
    const seen = { ...observed, wanting, place: limit?.placeOf(name) };
    const decided = decide(seen);
    for (const trouble of troublesOf(seen)) void this.#options.tell(trouble);
    for (const one of decided) if (one.do === "hold-back") this.#tellOfLimit(seen, one);
    const actions = decided.filter((one) => one.do !== "hold-back");
    if (!calm && actions.length > 0 && actions.every(canWait)) return LATER;
    const againMs = await this.#apply(actions, seen, signal);
    this.#report(seen, actions, nowMs() - startedMs);
    return againMs;
  }

  async #apply(actions: readonly Action[], seen: Observed, signal: AbortSignal) {
    const { cluster, limit } = this.#options;
    for (const one of actions) if ("lists" in one) limit?.grant(seen.name, namedIn(one.lists));
    try {
      const againMs = await apply(actions, seen, cluster, signal);
      limit?.settle(seen.name);
      return againMs;
    } catch (error) {
      limit?.settle(seen.name, error);
      if (isLasting(error)) await this.#noteRefusal(seen, error, signal);
      throw error;
    }
  }

  /** Best effort: the workloads have an event, and the attachment changes while it is written. */
  async #noteRefusal(seen: Observed, { message }: Failure, signal: AbortSignal): Promise<void> {
    const { attachment } = seen;
    if (attachment === undefined) return;
    const status = refusedStatusOf(seen, message);
    if (isSameStatus(attachment.status, status)) return;
    const write = { do: "write-status", attachment, status, stale: [] } as const;
    await this.#options.cluster.writeStatus(write, signal).catch((error: unknown) => {
      if (!(error instanceof Failure)) throw error;
      this.#options.log.debug({ attachment: seen.name, err: error }, "status not written");
    });
  }

  #tellOfLimit(seen: Observed, { workloads, place }: Extract<Action, { do: "hold-back" }>): void {
    for (const trouble of limitTroubles(workloads, seen, place)) void this.#options.tell(trouble);
  }

  #report(seen: Observed, actions: readonly Action[], ms: number): void {
    const { log } = this.#options;
    const facts = { attachment: seen.name, volume: seen.key?.persistentVolumeName };
    for (const action of actions) {
      switch (action.do) {
        case "create-attachment":
        case "update-attachment":
          this.#reportArrivals(seen, actions, action.lists.attachments, ms);
          break;
        case "mark-pod":
          log.info({ ...facts, pod: action.pod.name, why: action.why }, "needs-unmount set");
          break;
        case "delete-pod":
          log.info({ ...facts, pod: action.pod.name, why: action.why }, "Mountpoint Pod deleted");
          break;
        case "delete-attachment":
          log.info(facts, "attachment deleted");
          break;
        case "write-status": {
          const { phase, conditions } = action.status;
          log.info({ ...facts, phase, why: conditions[0]?.message }, "attachment's status written");
          break;
        }
        case "create-pod":
        case "hold-back":
        case "look-again":
          break;
        default:
          action satisfies never;
      }
    }
  }

  /** The line that says where the time went between the scheduler and the node. */
  #reportArrivals(seen: Observed, actions: readonly Action[], next: Attachments, ms: number): void {
    const before = seen.attachment?.spec.mountpointS3PodAttachments ?? {};
    const created = new Set(actions.map((a) => (a.do === "create-pod" ? a.pod.name : undefined)));
    for (const [pod, entries] of Object.entries(next)) {
      const known = new Set(before[pod]?.map((entry) => entry.workloadPodUID));
      for (const { workloadPodUID: uid } of entries) {
        if (!known.has(uid)) this.#reportArrival(seen, uid, pod, created.has(pod), ms);
      }
    }
  }

  #reportArrival(seen: Observed, uid: string, pod: string, created: boolean, ms: number): void {
    const workload = this.#options.world.workload(uid);
    const scheduledMs = this.#scheduledMs.get(uid);
    this.#scheduledMs.delete(uid);
    this.#options.log.info(
      {
        attachment: seen.name,
        volume: seen.key?.persistentVolumeName,
        node: seen.key?.nodeName,
        workload: workload === undefined ? uid : `${workload.namespace}/${workload.name}`,
        pod,
        podCreated: created,
        writeMs: ms,
        sinceScheduledSeenMs:
          scheduledMs === undefined ? undefined : this.#options.nowMs() - scheduledMs,
      },
      "workload attached",
    );
  }
}

/** Mounts, and UIDs of workloads. */
function namedIn({ attachments, mountIds }: AttachmentLists) {
  const mounts = new Set(Object.keys(attachments).map((pod) => mountIds[pod] ?? pod));
  const entries = Object.values(attachments).flat();
  return { mounts, uids: new Set(entries.map((entry) => entry.workloadPodUID)) };
}

/** A workload waits for its attachment; these only tell, or clear away what has ended. */
function canWait(action: Action): boolean {
  if (action.do === "delete-pod") return action.pod.finished;
  return action.do === "write-status";
}
