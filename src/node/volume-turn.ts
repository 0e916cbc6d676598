import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ClusterView } from "./cluster-view.ts";
import type { Target } from "./publish-request.ts";

/**
 * The kubelet's turns on one volume: while it mounts the volume for a pod, it does not unmount the
 * volume from another. Its directories tell which pods have the volume. They are no mount points,
 * so that a look at them never waits for a filesystem that hangs.
 */
export class VolumeTurn {
  readonly #view: Pick<ClusterView, "finishedPods" | "onPodFinished">;
  readonly #target: Target;
  readonly #podsDir: string;
  readonly #volumeDir: string;
  /** Pods that were deleted at once, without having been seen to finish. */
  readonly #deleted = new Set<string>();

  constructor(view: Pick<ClusterView, "finishedPods" | "onPodFinished">, target: Target) {
    this.#view = view;
    this.#target = target;
    this.#volumeDir = join("volumes/kubernetes.io~csi", target.pvName);
    const ours = join(target.podUid, this.#volumeDir, "mount");
    this.#podsDir = target.path.slice(0, -ours.length);
  }

  /** A pod that has finished and still has the volume, by UID. */
  neededBy(): string | undefined {
    const finished = new Set(this.#view.finishedPods()).union(this.#deleted);
    finished.delete(this.#target.podUid);
    return finished.values().find((uid) => existsSync(join(this.#podsDir, uid, this.#volumeDir)));
  }

  onNeeded(listener: () => void): Disposable {
    return this.#view.onPodFinished((uid) => {
      this.#deleted.add(uid);
      listener();
    });
  }
}
