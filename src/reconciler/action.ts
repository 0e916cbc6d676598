import type { AttachmentLists } from "../volume/attachment.ts";
import type { ControllerStatus } from "./attachment-status.ts";
import type { Attachment, MountpointPod, Workload } from "./facts.ts";
import type { Place } from "./namespace-limit.ts";

export interface NewPod {
  readonly name: string;
  readonly workloadUid: string;
  /** Unset where nobody knows it any more. */
  readonly workloadNamespace?: string | undefined;
  readonly generation: number;
  readonly mountId: string;
  /** A workload of the pod has headroom that the pod may take. */
  readonly preempting: boolean;
}

export type Action =
  | { readonly do: "create-pod"; readonly pod: NewPod }
  | { readonly do: "mark-pod"; readonly pod: MountpointPod; readonly why: string }
  | { readonly do: "delete-pod"; readonly pod: MountpointPod; readonly why: string }
  | { readonly do: "create-attachment"; readonly lists: AttachmentLists }
  | {
      readonly do: "update-attachment";
      readonly attachment: Attachment;
      readonly lists: AttachmentLists;
    }
  | { readonly do: "delete-attachment"; readonly attachment: Attachment }
  | {
      readonly do: "write-status";
      readonly attachment: Attachment;
      readonly status: ControllerStatus;
      /** Mountpoint Pods that the status tells of though they are gone. */
      readonly stale: readonly string[];
    }
  /** Newcomers for whom the limit of their namespace leaves no place. */
  | { readonly do: "hold-back"; readonly workloads: readonly Workload[]; readonly place: Place }
  | { readonly do: "look-again"; readonly afterMs: number };
