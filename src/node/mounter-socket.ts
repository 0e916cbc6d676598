import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import { SOCKET_NAME } from "../handover/messages.ts";
import { MounterLink } from "../handover/mounter-link.ts";
import { lookBeneath, untilBeneath } from "../sys/beneath.ts";
import type { Place } from "../sys/beneath.ts";
import type { FuseConnection } from "../sys/fuse-connection.ts";
import { SystemError } from "../sys/libc.ts";
import type { PeerCredentials } from "../sys/unix-socket.ts";

/** A link, or a file in place of a directory: nobody but the pod puts those there. */
const SWAPPED: ReadonlySet<string> = new Set(["ELOOP", "ENOTDIR"]);
/** Nobody listens any more, or the listener died while we asked who it is. */
const GONE: ReadonlySet<string> = new Set(["ECONNREFUSED", "ENOENT", "ESRCH"]);
const PF_EXITING = 0x4;
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
  const [root, names, take] = wayTo(kubeletPath, podUid);
  try {
    return await untilBeneath(root, names, take, signal);
  } catch (error) {
    if (signal.aborted) {
      const message = `the mounter of pod ${podUid} did not appear in time`;
      throw new Failure("timeout", message, error);
    }
    throw wordsFor(error, podUid);
  }
}

/** The mounter of a pod if it is there now. */
export function mounterIfThere(kubeletPath: string, podUid: string): MounterLink | undefined {
  try {
    return lookBeneath(...wayTo(kubeletPath, podUid));
  } catch (error) {
    throw wordsFor(error, podUid);
  }
}

/**
 * Of a mount that is not held: its container waits to be told that it is not needed. One that does
 * not hear it is cut off from the kernel.
 */
export async function finishUnheld(
  podUid: string | undefined,
  kubeletPath: string,
  signal: AbortSignal,
  connection?: FuseConnection,
): Promise<void> {
  if (podUid === undefined) return; // there is nobody to tell
  try {
    const now = mounterIfThere(kubeletPath, podUid);
    using link = now ?? (await untilMounter(kubeletPath, podUid, signal));
    await link.finish(signal);
  } catch (error) {
    connection?.abort();
    throw error;
  }
}

function wayTo(kubeletPath: string, podUid: string) {
  const names = [podUid, ...COMM_VOLUME, SOCKET_NAME];
  const take = (place: Place) => connect(place, podUid);
  return [join(kubeletPath, "pods"), names, take] as const;
}

function wordsFor(error: unknown, podUid: string): unknown {
  if (!(error instanceof SystemError && SWAPPED.has(error.code))) return error;
  const message = `pod ${podUid} blocks the way to its ${SOCKET_NAME}: ${error.code}`;
  return new Failure("denied", message, error);
}

/** Undefined: the socket of a container that has ended. Its successor puts its own there. */
function connect(place: Place, podUid: string): MounterLink | undefined {
  if (!place.isSocket) {
    throw new Failure("denied", `${SOCKET_NAME} of the Mountpoint Pod ${podUid} is no socket`);
  }
  try {
    return new MounterLink(place.path, (peer) => checkPeer(peer, podUid));
  } catch (error) {
    if (!isErrno(error)) throw error;
    if (GONE.has(error.code)) return undefined;
    if (error.code !== "EAGAIN") throw error;
    throw new Failure("remote", `the mounter of pod ${podUid} takes no connection`, error);
  }
}

/** The kernel says which process listens, and in which pod's cgroup it runs. */
function checkPeer({ pid }: PeerCredentials, podUid: string): void {
  const cgroups = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  const ours = [podUid, podUid.replaceAll("-", "_")].some((uid) => cgroups.includes(`pod${uid}`));
  if (!ours) {
    if (hasEnded(pid)) throw new SystemError("connect", constants.errno.ECONNREFUSED, SOCKET_NAME);
    throw new Failure(
      "denied",
      `the socket of pod ${podUid} is served by process ${pid} of another`,
    );
  }
}

/** A process that ends leaves its cgroup before its socket is seen to be gone. */
function hasEnded(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8"); // pid (name) state and five more, flags
  const [state = "", , , , , , flags] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return "ZXx".includes(state) || (Number(flags) & PF_EXITING) !== 0;
}

function isErrno(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && "code" in error && typeof error.code === "string";
}
