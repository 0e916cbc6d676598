import { isBound } from "./binds.ts";
import type { MountpointPod } from "./cluster-view.ts";
import type { MountNews, Source } from "./kept-mount.ts";

/** Mounts that have lost their engine for good: whoever uses one is told once. */
export class DeadMounts {
  readonly #kubeletPath: string;
  readonly #onNews: (news: MountNews) => void;
  /** By device. */
  readonly #told = new Set<string>();

  constructor(kubeletPath: string, onNews: (news: MountNews) => void = () => {}) {
    this.#kubeletPath = kubeletPath;
    this.#onNews = onNews;
  }

  /** News of any mount come by here, to be passed on. */
  heard(news: MountNews): void {
    if (news.what === "given up") this.#told.add(news.source.device);
    this.#onNews(news);
  }

  /** Nobody holds it. One that no pod uses is made anew, or taken down, without a word. */
  found(source: Source, pod: MountpointPod): void {
    if (this.#told.has(source.device) || !isBound(source, this.#kubeletPath)) return;
    const cause = "its engine ended while the node service was not connected to it";
    const { mountId } = pod;
    this.heard({ what: "given up", mountId, source, pod, cause, pauseMs: 0, recoveries: 0 });
  }

  /** The kernel gives the numbers of devices again. */
  isNew({ device }: Source): void {
    this.#told.delete(device);
  }
}
