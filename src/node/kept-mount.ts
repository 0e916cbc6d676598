import type { Credentials } from "../handover/messages.ts";
import type { MounterLink } from "../handover/mounter-link.ts";
import type { FuseConnection } from "../sys/fuse-connection.ts";
import type { MountpointPod } from "./cluster-view.ts";

/** For a mounter to take other keys. */
export const REKEY_WITHIN_MS = 5_000;

/** A mounted source directory, as mountinfo shows it. */
export interface Source {
  readonly dir: string;
  readonly device: string;
}

/** How a mount is served, for whoever asks. */
export type MountState =
  | { readonly is: "served"; readonly recoveries: number }
  | { readonly is: "waiting"; readonly sinceMs: number; readonly cause: string }
  | { readonly is: "given up"; readonly cause: string };

export interface MountNews {
  readonly what: "recovered" | "handed over" | "given up";
  readonly mountId: string;
  readonly source: Source;
  readonly pod: MountpointPod;
  readonly cause: string;
  readonly pauseMs: number;
  /** How often it was, in the life of this node service. */
  readonly recoveries: number;
}

/** Who serves a mount: a pod, and the way to its mounter. */
export interface Server {
  readonly pod: MountpointPod;
  readonly link: MounterLink;
}

/** A mount that is served, as the rest of the node service deals with it. */
export interface KeptMount {
  readonly mountId: string;
  readonly source: Source;
  readonly pod: MountpointPod;
  readonly state: MountState;
  /** From the first word of its end on: it takes no keys any more. */
  readonly isEnding: boolean;
  rekey(credentials: Credentials | null): Promise<void>;
  untilServed(signal: AbortSignal): Promise<void>;
  finish(signal: AbortSignal): Promise<void>;
  letGo(): void;
}

/**
 * Sends the word before it returns. Then the connection is ended, whether or not the mounter did
 * what it was told, so that no program waits for it any more.
 */
export async function finishBy(
  link: MounterLink,
  connection: FuseConnection | undefined,
  signal: AbortSignal,
): Promise<void> {
  try {
    await link.finish(signal);
  } finally {
    connection?.abort();
  }
}
