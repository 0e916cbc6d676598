import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import { JournalFull } from "../journal/journal.ts";
import type { Journal } from "../journal/journal.ts";
import type { DoomedRecord, JournalRecord, SuspectRecord } from "../journal/record.ts";
import { rememberSuspect } from "../journal/saved-state.ts";
import type { SavedState } from "../journal/saved-state.ts";
import type { ObjectStore } from "../s3/object-store.ts";

const ABORT_LIMIT_MS = 30_000;
const FIRST_PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 60_000;
/**
 * S3 refuses a signature that is 15 minutes old, and the clock that signatures have may be 15
 * minutes ahead of ObjectStore.earliestNowMs(). So no request that was sent by now begins an
 * upload later.
 */
const EXECUTED_WITHIN_MS = 30 * 60_000;
/** When an aborted upload is aborted once more; see `#removeLateParts`. */
export const LATE_PART_CHECKS_MS: readonly number[] = [250, 1_000];
/** At the end of the mount each upload gets this many more attempts, one after the other. */
const LAST_ATTEMPTS = 5;

/**
 * Uploads that will never be completed, until S3 has removed their parts. An abort that S3 does
 * not execute is repeated for as long as the engine lives, and by its successors: the parts cost
 * storage and no listing of objects shows them.
 */
export class DiscardedUploads {
  readonly #store: ObjectStore;
  readonly #journal: Pick<Journal, "note" | "commit">;
  readonly #latePartChecksMs: readonly number[];
  readonly #doomed = new Map<string, DoomedRecord>();
  readonly #underWay = new Set<Promise<unknown>>();
  /** Keys for which S3 may still get a request for an upload that nobody waits for. */
  readonly #suspects = new Map<string, SuspectRecord>();
  /** Of these, what the journal had room for: successors look for no others. */
  readonly #notedSuspects = new Map<string, SuspectRecord>();
  /** Keys with uploads of this mount that may still be completed, and how many. */
  readonly #live = new Map<string, number>();
  /** Aborts when the mount ends: no attempt is put off any more. */
  readonly #ending = new AbortController();

  constructor(
    store: ObjectStore,
    journal: Pick<Journal, "note" | "commit">,
    latePartChecksMs = LATE_PART_CHECKS_MS,
  ) {
    this.#store = store;
    this.#journal = journal;
    this.#latePartChecksMs = latePartChecksMs;
  }

  /** Work that has to end before the engine does: nobody else removes what it leaves in S3. */
  track(work: Promise<unknown>): void {
    const ended: Promise<unknown> = work
      .catch(() => undefined)
      .finally(() => this.#underWay.delete(ended));
    this.#underWay.add(ended);
  }

  /** The mount ends: resolves when all uploads are removed, or S3 has refused once more. */
  async finish(): Promise<void> {
    this.#ending.abort();
    for (const suspect of this.#suspects.values()) this.track(this.#removeStrays(suspect));
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  get records(): Iterable<JournalRecord> {
    return [...this.#doomed.values(), ...this.#notedSuspects.values()];
  }

  /** Removes an upload. Resolves after the first attempt: failed ones are repeated later. */
  discard(key: string, uploadId: string): Promise<void> {
    return this.#remove({ is: "doomed", key, uploadId });
  }

  /**
   * An upload of this key begins. Until it is disposed of, strays of the key are left alone: nobody
   * could tell them from an upload that has no part yet.
   */
  use(key: string): Disposable {
    this.#live.set(key, (this.#live.get(key) ?? 0) + 1);
    let isUsed = true;
    return {
      [Symbol.dispose]: () => {
        if (!isUsed) return;
        isUsed = false;
        const others = (this.#live.get(key) ?? 1) - 1;
        if (others === 0) this.#live.delete(key);
        else this.#live.set(key, others);
      },
    };
  }

  /**
   * A request for an upload of this key was given up. It may be on its way still, and reach S3
   * after its strays were looked for: they are looked for again when the mount ends, also when
   * another engine serves it by then.
   */
  suspect(key: string, sinceMs: number): SuspectRecord {
    const untilMs = this.#store.earliestNowMs() + EXECUTED_WITHIN_MS;
    const suspect = { is: "suspect", key, sinceMs, untilMs, optional: true } as const;
    rememberSuspect(this.#suspects, suspect);
    try {
      this.#journal.note(suspect); // refused when the journal is full
      rememberSuspect(this.#notedSuspects, suspect);
      this.#journal.commit();
    } catch (error) {
      if (!(error instanceof JournalFull)) throw error;
    }
    return suspect;
  }

  /** Removes an upload whose id was lost with the answer that had it. */
  discardStrays(key: string, sinceMs: number): Promise<void> {
    return this.#removeStrays(this.suspect(key, sinceMs));
  }

  /**
   * Takes over from an earlier engine: uploads that it could not remove, while no caller waits for
   * them, and keys whose strays it would have looked for at its end.
   */
  restore({ doomed, suspects }: Pick<SavedState, "doomed" | "suspects">): void {
    for (const suspect of suspects.values()) {
      rememberSuspect(this.#suspects, suspect);
      rememberSuspect(this.#notedSuspects, suspect);
    }
    for (const record of doomed.values()) this.track(this.#remove(record));
  }

  #removeStrays({ key, sinceMs, untilMs }: SuspectRecord): Promise<void> {
    const uploadId = `since ${sinceMs}: ${key}`;
    return this.#remove({ is: "doomed", key, uploadId, sinceMs, untilMs });
  }

  async #remove(doomed: DoomedRecord): Promise<void> {
    this.#doomed.set(doomed.uploadId, doomed);
    this.#journal.note(doomed);
    this.#journal.commit();
    if (!(await this.#isRemoved(doomed))) this.track(this.#repeat(doomed));
  }

  async #repeat(doomed: DoomedRecord): Promise<void> {
    const { signal } = this.#ending;
    let lastAttempts = 0;
    for (let pauseMs = FIRST_PAUSE_MS; lastAttempts < LAST_ATTEMPTS; pauseMs *= 2) {
      const limitedMs = Math.min(pauseMs, PAUSE_MAX_MS);
      await sleep(limitedMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) lastAttempts += 1;
      if (await this.#isRemoved(doomed)) return;
    }
  }

  async #isRemoved({ key, uploadId, sinceMs, untilMs }: DoomedRecord): Promise<boolean> {
    const signal = AbortSignal.timeout(ABORT_LIMIT_MS);
    if (sinceMs !== undefined && this.#live.has(key)) return false;
    try {
      if (sinceMs === undefined) {
        await this.#store.abortUpload(key, uploadId, signal);
        this.track(this.#removeLateParts(key, uploadId));
      } else {
        await this.#store.abortStrays(key, sinceMs, signal, untilMs);
      }
    } catch (error) {
      const isGone = error instanceof Failure && error.kind === "absent";
      if (!isGone) return false;
    }
    this.#doomed.delete(uploadId);
    this.#journal.note({ is: "aborted", uploadId });
    this.#journal.commit();
    return true;
  }

  /**
   * A part that S3 was still storing when its upload was aborted may outlive it: AWS says so, and
   * versitygw makes the upload anew for it. Until S3 knows of no such upload, it is aborted again.
   */
  async #removeLateParts(key: string, uploadId: string): Promise<void> {
    for (const pauseMs of this.#latePartChecksMs) {
      await sleep(pauseMs);
      const signal = AbortSignal.timeout(ABORT_LIMIT_MS);
      await this.#store.abortUpload(key, uploadId, signal);
    }
  }
}
