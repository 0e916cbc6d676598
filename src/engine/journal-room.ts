import { JournalFull } from "../journal/journal.ts";
import type { Journal } from "../journal/journal.ts";
import { within } from "../base/within.ts";
import { PosixFailure } from "./posix-failure.ts";

/** The kernel forgets names soon after it was asked. When nothing ends for so long, none will. */
const QUIET_MS = 1_000;
/** An upload that holds parts and has sent none for so long does not come to its end. */
const STALLED_MS = 60_000;

/** An upload, as far as others wait for its end. */
export interface PartHolder {
  /** Parts that the journal has of it, until it has ended. */
  readonly heldParts: number;
  readonly failure: unknown;
}

/**
 * Uploads that wait for the journal to take their next part. Room comes when other files are
 * closed, and when the kernel forgets names. A wait that can't end fails: when no more names go,
 * and all uploads that hold parts wait too, or have sent nothing for a minute.
 */
export class JournalRoom {
  readonly #journal: Pick<Journal, "makeRoom" | "shrunk">;
  readonly #holders: () => Iterable<PartHolder>;
  readonly #stalledMs: number;
  readonly #waiting = new Set<PartHolder>();

  constructor(
    journal: Pick<Journal, "makeRoom" | "shrunk">,
    holders: () => Iterable<PartHolder>,
    stalledMs = STALLED_MS,
  ) {
    this.#journal = journal;
    this.#stalledMs = stalledMs;
    this.#holders = holders;
  }

  /**
   * Runs what notes something, again after each refusal for want of room: an action that is
   * refused must have changed nothing. Undefined when the caller leaves before.
   */
  async run<Result>(
    upload: PartHolder,
    action: () => Result,
    leaving: AbortSignal,
  ): Promise<Awaited<Result> | undefined> {
    for (;;) {
      try {
        return await action();
      } catch (error) {
        if (!(error instanceof JournalFull)) throw error;
      }
      if (!(await this.#wait(upload, leaving))) return undefined;
    }
  }

  /** False when the caller leaves. */
  async #wait(upload: PartHolder, leaving: AbortSignal): Promise<boolean> {
    this.#waiting.add(upload);
    try {
      let isQuiet = false;
      let parts = 0;
      let sinceMs = performance.now();
      while (!this.#makeRoom()) {
        const partsNow = this.#partsOfOthers();
        if (partsNow !== parts) sinceMs = performance.now();
        parts = partsNow;
        const isStalled = performance.now() - sinceMs >= this.#stalledMs;
        if (isQuiet && (parts === 0 || isStalled)) {
          const reason =
            "the journal has no room for more parts of files that are open for writing";
          throw new PosixFailure("ENOMEM", `${reason}: give the container more memory`);
        }
        isQuiet = await this.#shrunkOrQuiet(leaving);
        if (upload.failure !== undefined) throw upload.failure;
        if (leaving.aborted) return false;
      }
      return true;
    } finally {
      this.#waiting.delete(upload);
    }
  }

  #makeRoom(): boolean {
    try {
      return this.#journal.makeRoom();
    } catch (error) {
      if (error instanceof JournalFull) return false;
      throw error;
    }
  }

  /** Parts of uploads that do not wait. */
  #partsOfOthers(): number {
    let parts = 0;
    for (const holder of this.#holders()) {
      if (!this.#waiting.has(holder)) parts += holder.heldParts;
    }
    return parts;
  }

  /** True when nothing has ended for a while. */
  async #shrunkOrQuiet(leaving: AbortSignal): Promise<boolean> {
    const quiet = AbortSignal.timeout(QUIET_MS);
    const signal = AbortSignal.any([leaving, quiet]);
    await within(this.#journal.shrunk, signal, () => new Error("quiet")).catch(() => undefined);
    return quiet.aborted;
  }
}
