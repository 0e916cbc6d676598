import type { Journal } from "../journal/journal.ts";
import type { ObjectStore } from "../s3/object-store.ts";
import type { DiscardedUploads } from "./discarded-uploads.ts";
import type { JournalRoom } from "./journal-room.ts";
import type { PartSizes } from "./part-sizes.ts";
import type { SpoolQueue } from "./spool-queue.ts";

/** The parts of a mount that an upload needs. */
export interface UploadDeps {
  readonly store: ObjectStore;
  readonly spool: SpoolQueue;
  readonly journal: Pick<Journal, "note" | "commit">;
  readonly room: JournalRoom;
  /** Removes the parts of uploads that will never be completed. */
  readonly discarded: Pick<
    DiscardedUploads,
    "discard" | "discardStrays" | "suspect" | "track" | "use"
  >;
  readonly partSizes: PartSizes;
  /** Of requests that are not ended when the upload is aborted. */
  readonly requestLimitMs: number;
  /** Called when S3 has stored the object by one PUT of these bytes. */
  readonly onStored: (bytes: Uint8Array) => Promise<void>;
}
