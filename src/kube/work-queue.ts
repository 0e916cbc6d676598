import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "./back-off.ts";

export interface WorkQueueOptions {
  readonly concurrency: number;
  readonly backOff: { readonly firstMs: number; readonly maxMs: number };
  /** Returns after how many ms to look at the key again, if at all without a reason. */
  readonly work: (key: string, signal: AbortSignal) => Promise<number | undefined>;
  readonly log: Log;
}

/** Keys, each worked on by one at a time, several at once; a key that fails backs off alone. */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #waiting = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #again = new Set<string>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #backOffs = new Map<string, BackOff>();
  #signal: AbortSignal | undefined;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  /** A key that waits already is not queued twice; one under work is worked on once more. */
  add(key: string): void {
    if (this.#signal?.aborted === true) return;
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
    if (this.#running.has(key)) this.#again.add(key);
    else this.#waiting.add(key);
    this.#pump();
  }

  /** Works until the signal aborts, then lets what is under way end. */
  async start(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
    this.#pump();
    await promise;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#waiting.clear();
    await Promise.all(this.#running.values());
  }

  #pump(): void {
    if (this.#signal === undefined || this.#signal.aborted) return;
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return;
      this.#waiting.delete(key);
      this.#running.set(key, this.#run(key, this.#signal));
    }
  }

  async #run(key: string, signal: AbortSignal): Promise<void> {
    let againMs: number | undefined;
    try {
      againMs = await this.#options.work(key, signal);
      this.#backOffs.delete(key);
    } catch (error) {
      againMs = this.#afterFault(key, error, signal);
    }
    this.#running.delete(key);
    if (this.#again.delete(key)) this.add(key);
    else if (againMs !== undefined) this.#addAfter(key, againMs);
    this.#pump();
  }

  #afterFault(key: string, error: unknown, signal: AbortSignal): number | undefined {
    if (signal.aborted) return undefined;
    const { firstMs, maxMs } = this.#options.backOff;
    const backOff = this.#backOffs.get(key) ?? new BackOff(firstMs, maxMs);
    this.#backOffs.set(key, backOff);
    const facts = { key, attempt: backOff.failures };
    if (!(error instanceof Failure)) this.#options.log.error({ ...facts, err: error }, "bug");
    else if (error.kind === "stale") this.#options.log.debug(facts, "changed meanwhile: again");
    else this.#options.log.warn({ ...facts, kind: error.kind, err: error.message }, "failed");
    return backOff.nextMs();
  }

  #addAfter(key: string, ms: number): void {
    if (this.#signal?.aborted === true) return;
    clearTimeout(this.#timers.get(key));
    this.#timers.set(
      key,
      setTimeout(() => this.add(key), ms),
    );
  }
}
