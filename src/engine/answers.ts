import type { Journal } from "../journal/journal.ts";
import type { JournalRecord, OutcomeRecord } from "../journal/record.ts";
import type { SavedState } from "../journal/saved-state.ts";

export type Intent = Extract<JournalRecord, { is: "intent" }>;

/** More than there are places for requests; and each is answered as soon as it is noted. */
const RESTORED_MAX = 4096;

/**
 * What requests were answered, or what was about to be done for them, for as long as the kernel
 * may not have the answer. A request that comes again is not run again.
 */
export class Answers {
  readonly #journal: Pick<Journal, "note" | "commit" | "makeRoom">;
  readonly #outcomes: Map<string, OutcomeRecord>;
  readonly #intents: Map<string, Intent>;

  constructor(
    journal: Pick<Journal, "note" | "commit" | "makeRoom">,
    saved: SavedState | undefined,
  ) {
    this.#journal = journal;
    // The journal has them all, also those long since answered: only the last can be asked for.
    this.#outcomes = new Map([...(saved?.outcomes ?? [])].slice(-RESTORED_MAX));
    // No intent is left out: a later engine would find it, and would send the DELETE.
    this.#intents = new Map(saved?.intents);
  }

  get records(): Iterable<JournalRecord> {
    return [...this.#intents.values(), ...this.#outcomes.values()];
  }

  of(unique: string): OutcomeRecord | undefined {
    return this.#outcomes.get(unique);
  }

  /** Deletions that were begun and have not ended. */
  get intents(): Intent[] {
    return [...this.#intents.values()];
  }

  /** Said before S3 is asked to delete it. */
  intend(unique: string, key: string, etag: string): void {
    const intent: Intent = { is: "intent", unique, key, etag };
    this.#journal.makeRoom();
    this.#journal.note(intent);
    this.#intents.set(unique, intent);
    this.#journal.commit();
  }

  /** Noted already, with the change that it stands for. */
  remember(unique: string, given: { id?: number; handle?: number }): void {
    this.#outcomes.set(unique, { is: "outcome", unique, ...this.#outcomes.get(unique), ...given });
  }

  /** An answer that names nothing, or an error. */
  done(unique: string, errno?: number): void {
    const failed = errno === undefined ? {} : { errno };
    const outcome: OutcomeRecord = { is: "outcome", unique, ...failed };
    this.#outcomes.set(unique, outcome);
    this.#intents.delete(unique);
    this.#journal.note(outcome);
  }

  /** Keeps the outcome of a request whose caller may have left, so that no reply commits it. */
  commit(): void {
    this.#journal.commit();
  }

  /**
   * The kernel has it. An intent stays until it is done: after EINTR S3 still works on it, and a
   * successor has to know.
   */
  forget(unique: string): void {
    this.#outcomes.delete(unique);
  }
}
