import { setTimeout as sleep } from "node:timers/promises";
import { untilFound } from "../base/until-found.ts";
import type { Source } from "./kept-mount.ts";

const GIVE_UP_AFTER_MS = 600_000;
const GIVE_UP_LEAVING_AFTER_MS = 60_000;

export interface PatienceOptions {
  /** The workloads that a mount is bound for, by UID. */
  readonly workloadsOf: (source: Source) => readonly string[];
  readonly isLeaving: (workloadUid: string) => boolean;
  /** Tells of each change of a workload. */
  readonly onChange: (listener: () => void) => Disposable;
  readonly giveUpAfterMs?: number | undefined;
  readonly giveUpLeavingAfterMs?: number | undefined;
}

/**
 * How long a mount may be without an engine. Its users wait uninterruptibly, even for their own
 * death: so the time is shorter when all of them are about to leave anyway.
 */
export class Patience {
  readonly #options: PatienceOptions;

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** Why it is over, as soon as it is; undefined when the signal came first. */
  async spent(source: Source, signal: AbortSignal): Promise<string | undefined> {
    const { giveUpAfterMs = GIVE_UP_AFTER_MS } = this.#options;
    const { giveUpLeavingAfterMs = GIVE_UP_LEAVING_AFTER_MS } = this.#options;
    const after = async (ms: number, why: string) => {
      await sleep(ms, undefined, { signal });
      return `${why}, and no engine for ${Math.round(ms / 1000)} s`;
    };
    const whole = after(giveUpAfterMs, "the mount has users");
    const leaving = (async () => {
      for (;;) {
        await this.#untilLeaving(source, signal);
        const why = await after(giveUpLeavingAfterMs, "every workload is terminating");
        if (this.#areAllLeaving(source)) return why; // else one has come meanwhile
      }
    })();
    try {
      return await Promise.any([whole, leaving]);
    } catch {
      return undefined;
    }
  }

  #untilLeaving(source: Source, signal: AbortSignal): Promise<unknown> {
    const { onChange } = this.#options;
    return untilFound(() => (this.#areAllLeaving(source) ? true : undefined), onChange, signal);
  }

  #areAllLeaving(source: Source): boolean {
    const { workloadsOf, isLeaving } = this.#options;
    return workloadsOf(source).every(isLeaving);
  }
}
