import { untilFound } from "../base/until-found.ts";
import { isOver } from "./cluster-view.ts";
import type { ClusterView, MountpointPod } from "./cluster-view.ts";
import type { HeldMount } from "./held-mount.ts";
import type { Server } from "./kept-mount.ts";
import { untilMounter } from "./mounter-socket.ts";

type View = Pick<ClusterView, "pods" | "onMountpointPodChange">;

/** Resolves when the controller has made a pod that is to serve a mount instead of this one. */
export async function untilSuccessor(
  mount: HeldMount,
  view: View,
  signal: AbortSignal,
): Promise<void> {
  const find = () => candidates(mount, view).find((pod) => isLater(pod, mount.pod));
  await untilFound(find, (look) => view.onMountpointPodChange(look), signal);
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
): Promise<Server> {
  for (;;) {
    const round = new AbortController();
    const within = AbortSignal.any([signal, round.signal]);
    const pods = candidates(mount, view);
    const changed = untilOthers(pods, mount, view, within);
    const waits = pods.map(async (pod): Promise<Server> => {
      return { pod, link: await untilMounter(kubeletPath, pod.uid, within) };
    });
    let found: Server | void = undefined;
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
export function candidates(mount: HeldMount, view: View): readonly MountpointPod[] {
  const pods = view
    .pods()
    .filter((pod) => pod.mountId === mount.mountId && !pod.leaving && !isOver(pod));
  return pods.filter(
    (pod) => isLater(pod, mount.pod) || (pod.uid === mount.pod.uid && !mount.isLinked),
  );
}

function isLater(pod: MountpointPod, than: MountpointPod): boolean {
  return pod.uid !== than.uid && pod.generation > than.generation;
}

/** Two may come at once: only one is needed. */
function dropUnless(kept: Server | void, { link }: Server): void {
  if (kept?.link !== link) link[Symbol.dispose]();
}

/** Resolves when there are other candidates than these. */
async function untilOthers(
  pods: readonly MountpointPod[],
  mount: HeldMount,
  view: View,
  signal: AbortSignal,
): Promise<void> {
  const before = uidsOf(pods);
  const find = () => (uidsOf(candidates(mount, view)) === before ? undefined : true);
  await untilFound(find, (look) => view.onMountpointPodChange(look), signal);
}

function uidsOf(pods: readonly MountpointPod[]): string {
  return pods.map(({ uid }) => uid).join();
}

function noop(): void {}
