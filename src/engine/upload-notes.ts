import type { Journal } from "../journal/journal.ts";
import { applyUpload, uploadRecords } from "../journal/saved-state.ts";
import type { SavedUpload, UploadRecord } from "../journal/saved-state.ts";
import { uploadCodeOf } from "./posix-failure.ts";

/** A key may have 1,024 bytes, and the journal has little room left for failures. */
const REASON_LENGTH_MAX = 200;

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

  /** The last write was cut off, and nobody has gone on with it. */
  get isCut(): boolean {
    return this.#saved.cut !== undefined;
  }

  get isCompleted(): boolean {
    return this.#saved.completed !== undefined;
  }

  /** The parts that S3 has, by number. */
  get sent(): SavedUpload["sent"] {
    return this.#saved.sent;
  }

  /** True for a successor from now on. */
  note(record: UploadRecord): void {
    this.noteWithOthers(record);
    this.#journal.commit();
  }

  /** The upload has failed for good, also for a successor. */
  noteFailure(handle: number, why: unknown): void {
    const reason = why instanceof Error ? why.message : String(why);
    const shortReason = reason.slice(0, REASON_LENGTH_MAX);
    this.note({ is: "failed", handle, code: uploadCodeOf(why), reason: shortReason });
  }

  /** Together with what is noted next: no successor sees one without the other. */
  noteWithOthers(record: UploadRecord): void {
    this.#journal.note(record); // refused when the journal is full: then nothing has changed
    applyUpload(this.#saved, record);
  }
}
