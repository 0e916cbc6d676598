import type { SharingKey } from "../volume/attachment.ts";
import type { Engine } from "../volume/engine.ts";
import type { Attachment, MountpointPod, NodeFacts, Workload } from "./facts.ts";
import type { Place } from "./namespace-limit.ts";
import type { Lineage } from "./succession.ts";
import type { LastMount } from "./world.ts";

/** Everything decide() may look at: the world of one attachment's name. */
export interface Observed {
  readonly name: string;
  /** The key that the attachment has, or will have. Unknown when only a pod is left of it. */
  readonly key: SharingKey | undefined;
  readonly attachment: Attachment | undefined;
  /** The PV's; empty when it was deleted under its users. */
  readonly attributes: Readonly<Record<string, string>>;
  /** Scheduled, neither ended nor terminating, of this key. Listed or not. */
  readonly wanting: readonly Workload[];
  /** UIDs named by the attachment or a pod whose workload is over: for certain, not by a lag. */
  readonly gone: ReadonlySet<string>;
  /** UIDs of workloads that are being deleted, and still there. */
  readonly leaving: ReadonlySet<string>;
  /** UIDs of workloads that are bound to a mount, ours or not; terminating ones too. */
  readonly bound: ReadonlySet<string>;
  /** By workload UID, of those that the attachment listed until somebody removed them. */
  readonly lastMounts: ReadonlyMap<string, LastMount>;
  /** Pods that the attachment lists or that were made for it. A missing one is gone for certain. */
  readonly pods: ReadonlyMap<string, MountpointPod>;
  /** Names of Mountpoint Pods of another driver, listed here or not: they are left alone. */
  readonly foreign: ReadonlySet<string>;
  /** Of our pods: those that have not started, while a successor would have other settings. */
  readonly outdated: ReadonlySet<string>;
  /** The lineage of pods that the attachment lists and that are gone. */
  readonly remembered: ReadonlyMap<string, Lineage>;
  /** The node of the key; undefined when it has been deleted. */
  readonly node: NodeFacts | undefined;
  readonly driverVersion: string;
  /** The administrator's choice, for mounts that begin now. */
  readonly engine: Engine;
  /** Unset: the namespace may have any number of Mountpoint Pods. */
  readonly place?: Place | undefined;
  readonly nowMs: number;
}
