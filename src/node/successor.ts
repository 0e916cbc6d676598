import type { MounterLink } from "../handover/mounter-link.ts";
import type { ClusterView, MountpointPod } from "./cluster-view.ts";
import type { HeldMount } from "./held-mount.ts";
import { untilMounter } from "./mounter-socket.ts";

type View = Pick<ClusterView, "pods" | "onPodChange">;

interface Found {
  readonly pod: MountpointPod;
  readonly link: MounterLink;
}

/** Resolves when the controller has made a pod that is to serve a mount instead of this one. */
export async function untilSuccessor(
  mount: HeldMount,
  view: View,
  signal: AbortSignal,
): Promise<void> {
  const isThere = () => candidates(mount, view).some((pod) => isLater(pod, mount.pod));
  while (!isThere()) await untilChange(view, signal);
}

/**
 * The first mounter that comes, of the same pod in its next container or of a successor: whichever
 * the cluster brings first.
 */
export async function untilNextMounter(
  mount: HeldMount,
  view: View,
  kubeletPath: string,
  signal: AbortSignal,
): Promise<Found> {
  for (;;) {
    const round = new AbortController();
    const within = AbortSignal.any([signal, round.signal]);
    const changed = untilChange(view, within);
    const waits = candidates(mount, view).map(async (pod): Promise<Found> => {
      return { pod, link: await untilMounter(kubeletPath, pod.uid, within) };
    });
    let found: Found | void = undefined;
    try {
      found = await Promise.race([changed, ...waits]);
      if (found !== undefined) return found;
    } finally {
      round.abort();
      changed.catch(noop);
      for (const wait of waits) void wait.then((other) => dropUnless(found, other), noop);
    }
  }
}

/** While the present one is alive only a later one counts; else its own next container, too. */
function candidates(mount: HeldMount, view: View): readonly MountpointPod[] {
  const pods = view.pods().filter((pod) => pod.mountId === mount.mountId && mayServe(pod));
  return pods.filter(
    (pod) => isLater(pod, mount.pod) || (pod.uid === mount.pod.uid && !mount.isLinked),
  );
}

function mayServe({ leaving, phase }: MountpointPod): boolean {
  return !leaving && phase !== "Succeeded" && phase !== "Failed";
}

function isLater(pod: MountpointPod, than: MountpointPod): boolean {
  return pod.uid !== than.uid && pod.generation > than.generation;
}

/** Two may come at once: only one is needed. */
function dropUnless(kept: Found | void, { link }: Found): void {
  if (kept?.link !== link) link[Symbol.dispose]();
}

function untilChange(view: View, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const subscription = view.onPodChange(() => resolve());
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  return promise.finally(() => {
    subscription[Symbol.dispose]();
    signal.removeEventListener("abort", abort);
  });
}

function noop(): void {}
