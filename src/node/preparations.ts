import { isDeepStrictEqual } from "node:util";
import type { Log } from "../base/log.ts";
import type { Source } from "./kept-mount.ts";
import type { PublishRequest } from "./publish-request.ts";
import { StopWatch } from "./stop-watch.ts";

/** The step that a preparation waits for. */
export interface Step {
  /** The words after "Timed out waiting for". */
  readonly waitsFor: string;
  /** The workload has a Mountpoint Pod. */
  readonly isAssigned: boolean;
  /** The reason why this step takes so long, as far as it is known now. */
  readonly cause: () => string | undefined;
}

export const WAITS_FOR_ATTACHMENT = "MountpointS3PodAttachment";

/** Longer than the kubelet's longest pause between two calls, which is 122 s. */
const ABANDONED_AFTER_MS = 150_000;

/**
 * A source that is being prepared for one target. The work goes on when a publish has answered
 * without it, so that the next publish finds it done.
 */
export class Preparation {
  readonly request: PublishRequest;
  readonly clock = new StopWatch();
  readonly source: Promise<Source>;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<() => void>();
  #step: Step = { waitsFor: WAITS_FOR_ATTACHMENT, isAssigned: false, cause: () => undefined };
  #abandoned: NodeJS.Timeout | undefined;
  #isAwaited = false;
  #isOver = false;

  constructor(request: PublishRequest, work: Work) {
    this.request = request;
    const over = () => {
      this.#isOver = true;
      clearTimeout(this.#abandoned);
    };
    this.source = work(this, this.#ending.signal);
    this.source.then(over, over);
  }

  /** A publish waits for the source and reports its failure. */
  get isAwaited(): boolean {
    return this.#isAwaited;
  }

  get step(): Step {
    return this.#step;
  }

  set step(step: Step) {
    this.#step = step;
    this.changed();
  }

  get isCancelled(): boolean {
    return this.#ending.signal.aborted;
  }

  /** The present step's cause is another one. */
  changed(): void {
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  cancel(): void {
    clearTimeout(this.#abandoned);
    this.#ending.abort(new Error("the workload does not ask for its volume any more"));
  }

  /** Marks that a publish waits, until disposed: then the next publish has a while to come. */
  awaited(): Disposable {
    clearTimeout(this.#abandoned);
    this.#isAwaited = true;
    return {
      [Symbol.dispose]: () => {
        this.#isAwaited = false;
        if (this.#isOver) return;
        this.#abandoned = setTimeout(() => this.cancel(), ABANDONED_AFTER_MS);
        this.#abandoned.unref();
      },
    };
  }
}

/** The work that prepares a source, reports its steps, and ends with the signal. */
export type Work = (preparation: Preparation, signal: AbortSignal) => Promise<Source>;

/** The preparations under way, one for each target. */
export class Preparations {
  readonly #log: Log;
  readonly #byTarget = new Map<string, Preparation>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Gives the preparation under way if it is for an equal request, else begins another. */
  join(request: PublishRequest, work: Work): Preparation {
    const { path } = request.target;
    const earlier = this.#byTarget.get(path);
    if (earlier !== undefined && isDeepStrictEqual(earlier.request, request)) return earlier;
    this.cancel(path);
    const preparation = new Preparation(request, work);
    this.#byTarget.set(path, preparation);
    void this.#forgetWhenOver(path, preparation);
    return preparation;
  }

  cancel(targetPath: string): void {
    this.#byTarget.get(targetPath)?.cancel();
    this.#byTarget.delete(targetPath);
  }

  /** The next publish finds a prepared source by its mount, and tries anew what has failed. */
  async #forgetWhenOver(path: string, preparation: Preparation): Promise<void> {
    try {
      await preparation.source;
    } catch (error) {
      const { isAwaited, isCancelled, request } = preparation;
      const fields = { volumeId: request.volumeId, pod: request.workloadUid, err: error };
      if (!isAwaited && !isCancelled) this.#log.warn(fields, "preparing a volume failed");
    }
    if (this.#byTarget.get(path) === preparation) this.#byTarget.delete(path);
  }
}
