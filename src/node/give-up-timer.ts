import { setTimeout as sleep } from "node:timers/promises";
import { untilFound } from "../base/until-found.ts";
import type { Source } from "./kept-mount.ts";

const GIVE_UP_AFTER_MS = 600_000;
const GIVE_UP_TERMINATING_AFTER_MS = 60_000;

export interface GiveUpTimerOptions {
  /** The workloads that a mount is bound for, by UID. */
  readonly workloadsOf: (source: Source) => readonly string[];
  readonly isTerminating: (workloadUid: string) => boolean;
  /** Tells of each change of a workload. */
  readonly onChange: (listener: () => void) => Disposable;
  readonly giveUpAfterMs?: number | undefined;
  readonly giveUpTerminatingAfterMs?: number | undefined;
}

/**
 * Says when a mount without an engine is given up. Its users wait uninterruptibly, even for their
 * own death, so the time is shorter when all workloads are terminating anyway.
 */
export class GiveUpTimer {
  readonly #options: GiveUpTimerOptions;

  constructor(options: GiveUpTimerOptions) {
    this.#options = options;
  }

  /** Resolves with the reason when the time is over, or undefined when the signal aborts before. */
  async expired(source: Source, signal: AbortSignal): Promise<string | undefined> {
    const { giveUpAfterMs = GIVE_UP_AFTER_MS } = this.#options;
    const { giveUpTerminatingAfterMs = GIVE_UP_TERMINATING_AFTER_MS } = this.#options;
    const after = async (ms: number, why: string) => {
      await sleep(ms, undefined, { signal });
      return `${why}, and no engine for ${Math.round(ms / 1000)} s`;
    };
    const whole = after(giveUpAfterMs, "the mount has users");
    const terminating = (async () => {
      for (;;) {
        await this.#untilTerminating(source, signal);
        const why = await after(giveUpTerminatingAfterMs, "every workload is terminating");
        if (this.#areAllTerminating(source)) return why; // else one has come meanwhile
      }
    })();
    try {
      return await Promise.any([whole, terminating]);
    } catch {
      return undefined;
    }
  }

  #untilTerminating(source: Source, signal: AbortSignal): Promise<unknown> {
    const { onChange } = this.#options;
    return untilFound(() => (this.#areAllTerminating(source) ? true : undefined), onChange, signal);
  }

  #areAllTerminating(source: Source): boolean {
    const { workloadsOf, isTerminating } = this.#options;
    return workloadsOf(source).every(isTerminating);
  }
}
