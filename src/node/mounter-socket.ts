import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import { SOCKET_NAME } from "../handover/messages.ts";
import { MounterLink } from "../handover/mounter-link.ts";
import { untilBeneath } from "../sys/beneath.ts";
import type { Place } from "../sys/beneath.ts";
import { SystemError } from "../sys/libc.ts";
import type { PeerCredentials } from "../sys/unix-socket.ts";

/** A link, or a file in place of a directory: nobody but the pod puts those there. */
const SWAPPED: ReadonlySet<string> = new Set(["ELOOP", "ENOTDIR"]);
/** Nobody listens any more, or the listener died while we asked who it is. */
const GONE: ReadonlySet<string> = new Set(["ECONNREFUSED", "ENOENT", "ESRCH"]);
const COMM_VOLUME = ["volumes", "kubernetes.io~empty-dir", "comm"];

/**
 * Waits for the mounter of a pod and connects. The socket's appearance says that it is there, long
 * before the API's "Running" does. The directory belongs to the pod's user: it is entered by
 * descriptor without following links, and who answers must be a process of that very pod.
 */
export async function untilMounter(
  kubeletPath: string,
  podUid: string,
  signal: AbortSignal,
): Promise<MounterLink> {
  const names = [podUid, ...COMM_VOLUME, SOCKET_NAME];
  const take = (place: Place) => connect(place, podUid);
  try {
    return await untilBeneath(join(kubeletPath, "pods"), names, take, signal);
  } catch (error) {
    if (error instanceof Failure) throw error;
    if (signal.aborted)
      throw new Failure("timeout", `the mounter of pod ${podUid} did not appear in time`, error);
    if (!(error instanceof SystemError && SWAPPED.has(error.code))) throw error;
    throw new Failure(
      "denied",
      `pod ${podUid} blocks the way to its ${SOCKET_NAME}: ${error.code}`,
      error,
    );
  }
}

/** Undefined: the socket of a container that has ended. Its successor puts its own there. */
function connect(place: Place, podUid: string): MounterLink | undefined {
  if (!place.isSocket) {
    throw new Failure("denied", `${SOCKET_NAME} of the Mountpoint Pod ${podUid} is no socket`);
  }
  try {
    return new MounterLink(place.path, (peer) => checkPeer(peer, podUid));
  } catch (error) {
    if (isErrno(error) && GONE.has(error.code)) return undefined;
    throw error;
  }
}

/** The kernel says which process listens, and in which pod's cgroup it runs. */
function checkPeer({ pid }: PeerCredentials, podUid: string): void {
  const cgroups = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  const ours = [podUid, podUid.replaceAll("-", "_")].some((uid) => cgroups.includes(`pod${uid}`));
  if (!ours) {
    throw new Failure(
      "denied",
      `the socket of pod ${podUid} is served by process ${pid} of another`,
    );
  }
}

function isErrno(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && "code" in error && typeof error.code === "string";
}
