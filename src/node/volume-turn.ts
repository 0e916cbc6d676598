import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DRIVER_NAME } from "../volume/names.ts";
import type { ClusterView } from "./cluster-view.ts";
import type { PublishRequest } from "./publish-request.ts";

const VOLUMES = "volumes/kubernetes.io~csi";

/**
 * The kubelet's turns on one volume: while it mounts the volume for a pod, it does not unmount the
 * volume from another. For the kubelet, PersistentVolumes of one driver with the same handle are
 * one volume. Its directories tell which pods have the volume. They are no mount points, so that a
 * look at them never waits for a filesystem that hangs.
 */
export class VolumeTurn {
  readonly #view: Pick<ClusterView, "finishedPods" | "onPodFinished">;
  readonly #request: Pick<PublishRequest, "target" | "volumeId">;
  readonly #podsDir: string;
  /** Pods that were deleted at once, without having been seen to finish. */
  readonly #deleted = new Set<string>();

  constructor(
    view: Pick<ClusterView, "finishedPods" | "onPodFinished">,
    request: Pick<PublishRequest, "target" | "volumeId">,
  ) {
    this.#view = view;
    this.#request = request;
    const { path, podUid, pvName } = request.target;
    const ours = join(podUid, VOLUMES, pvName, "mount");
    this.#podsDir = path.slice(0, -ours.length);
  }

  /** A pod that has finished and still has the volume, by UID. */
  neededBy(): string | undefined {
    const finished = new Set(this.#view.finishedPods()).union(this.#deleted);
    finished.delete(this.#request.target.podUid);
    return finished.values().find((uid) => this.#hasVolume(uid));
  }

  onNeeded(listener: () => void): Disposable {
    return this.#view.onPodFinished((uid) => {
      this.#deleted.add(uid);
      listener();
    });
  }

  #hasVolume(podUid: string): boolean {
    const { target, volumeId } = this.#request;
    const dir = join(this.#podsDir, podUid, VOLUMES);
    const isSame = (pv: string) => pv === target.pvName || handleIn(join(dir, pv)) === volumeId;
    return found(() => readdirSync(dir))?.some(isSame) ?? false;
  }
}

/** The handle of a volume of this driver, by the file that the kubelet keeps beside the mount. */
function handleIn(volumeDir: string): string | undefined {
  return found(() => {
    const text = readFileSync(join(volumeDir, "vol_data.json"), "utf8");
    const data = JSON.parse(text) as { driverName?: string; volumeHandle?: string };
    return data.driverName === DRIVER_NAME ? data.volumeHandle : undefined;
  });
}

/** Undefined where there is no such file, or the kubelet is about to write or remove it. */
function found<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
