import type { AttachmentLists, SharingKey } from "../volume/attachment.ts";
import type { ControllerStatus } from "./attachment-status.ts";
import type { NewPod } from "./action.ts";
import type { Attachment, MountpointPod } from "./facts.ts";
import type { Origin } from "./mountpoint-pod.ts";

/** The controller's status of an attachment, and which reports of the node are to be removed. */
export interface NextStatus {
  readonly attachment: Attachment;
  readonly status: ControllerStatus;
  readonly stale: readonly string[];
}

/**
 * What the reconciler asks of the API server, beyond the watches. Writes are safe to repeat; one
 * that meets another state than it was decided for throws Failure("stale"): look again.
 */
export interface Cluster {
  findAttachment(name: string, signal: AbortSignal): Promise<Attachment | undefined>;
  findPod(name: string, signal: AbortSignal): Promise<MountpointPod | "foreign" | undefined>;
  /** UIDs of the pods on a node that have not ended, read now and not from a cache. */
  liveUids(nodeName: string, signal: AbortSignal): Promise<ReadonlySet<string>>;

  /** Hash of the settings that a pod made now for a mount would have; empty if it can't be made. */
  settingsHashFor(mountId: string, origin: Origin): string;
  /** A pod of that name which serves another mount is another state than decided for. */
  createPod(pod: NewPod, origin: Origin, signal: AbortSignal): Promise<void>;
  markPod(pod: MountpointPod, signal: AbortSignal): Promise<void>;
  deletePod(pod: MountpointPod, signal: AbortSignal): Promise<void>;

  createAttachment(
    name: string,
    key: SharingKey,
    lists: AttachmentLists,
    signal: AbortSignal,
  ): Promise<void>;
  updateAttachment(
    attachment: Attachment,
    lists: AttachmentLists,
    signal: AbortSignal,
  ): Promise<void>;
  /** Not guarded by a version: the last word counts. */
  writeStatus(next: NextStatus, signal: AbortSignal): Promise<void>;
  deleteAttachment(attachment: Attachment, signal: AbortSignal): Promise<void>;
}
