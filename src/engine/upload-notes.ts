import type { Journal } from "../journal/journal.ts";
import { applyUpload, uploadRecords } from "../journal/saved-state.ts";
import type { SavedUpload, UploadRecord } from "../journal/saved-state.ts";

/** An upload as the journal has it. */
export class UploadNotes {
  readonly #journal: Pick<Journal, "note" | "commit">;
  readonly #saved: SavedUpload;

  constructor(journal: Pick<Journal, "note" | "commit">, saved: SavedUpload) {
    this.#journal = journal;
    this.#saved = saved;
  }

  get records(): Iterable<UploadRecord> {
    return uploadRecords(this.#saved);
  }

  get isCompleted(): boolean {
    return this.#saved.ending?.is === "completed";
  }

  /** True for a successor from now on. */
  note(record: UploadRecord): void {
    this.noteWithOthers(record);
    this.#journal.commit();
  }

  /** Together with what is noted next: no successor sees one without the other. */
  noteWithOthers(record: UploadRecord): void {
    applyUpload(this.#saved, record);
    this.#journal.note(record);
  }
}
