import { Failure } from "../base/failure.ts";
import type { Journal } from "../journal/journal.ts";
import type { JournalRecord } from "../journal/record.ts";
import type { ObjectStore } from "../s3/object-store.ts";

const ABORT_LIMIT_MS = 30_000;

/** Uploads that nobody will complete, until S3 has forgotten their parts. */
export class DiscardedUploads {
  readonly #store: ObjectStore;
  readonly #journal: Pick<Journal, "note" | "commit">;
  readonly #keys: Map<string, string>;

  constructor(store: ObjectStore, journal: Pick<Journal, "note" | "commit">) {
    this.#store = store;
    this.#journal = journal;
    this.#keys = new Map();
  }

  get records(): Iterable<JournalRecord> {
    return [...this.#keys].map(([uploadId, key]) => ({ is: "doomed", key, uploadId }));
  }

  async discard(key: string, uploadId: string): Promise<void> {
    this.#keys.set(uploadId, key);
    this.#journal.note({ is: "doomed", key, uploadId });
    this.#journal.commit();
    await this.#abort(key, uploadId);
    this.#keys.delete(uploadId);
    this.#journal.note({ is: "aborted", uploadId });
    this.#journal.commit();
  }

  /** One that has gone is what we want. */
  async #abort(key: string, uploadId: string): Promise<void> {
    try {
      await this.#store.abortUpload(key, uploadId, AbortSignal.timeout(ABORT_LIMIT_MS));
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== "absent") throw error;
    }
  }

  /** What an earlier engine could not finish; nobody waits for it. */
  restore(doomed: ReadonlyMap<string, string>): void {
    for (const [uploadId, key] of doomed) void this.discard(key, uploadId).catch(() => undefined);
  }
}
