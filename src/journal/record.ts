/** What a file's inode is bound to; absent for directories and for files not yet in S3. */
export interface SavedObject {
  readonly etag: string;
  readonly size: number;
  readonly mtime: number;
  readonly archived?: true | undefined;
}

/** An identity, noted when the kernel first learns of it and whenever it changes. */
export interface InodeRecord {
  readonly is: "inode";
  readonly id: number;
  readonly path: string;
  readonly directory?: true | undefined;
  readonly local?: true | undefined;
  /** Something in it was removed by this mount: it is found by name although S3 has no key. */
  readonly emptied?: true | undefined;
  /** The path leads elsewhere by now: it lives on by its nodeid alone. */
  readonly unbound?: true | undefined;
  readonly object?: SavedObject | undefined;
  readonly refs: number;
  /** The request that is answered by it: see OutcomeRecord. */
  readonly unique?: string | undefined;
}

export interface OpenRecord {
  readonly is: "open";
  readonly handle: number;
  readonly id: number;
  readonly how: "read" | "write" | "list";
  /** Of a reader: its reads do not go through the kernel's page cache. */
  readonly bypassesCache?: true | undefined;
  readonly pid: number;
  readonly unique?: string | undefined;
}

/** Where bytes of a part lie in the spool, acknowledged and not yet in S3. */
export interface SegmentRecord {
  readonly is: "segment";
  readonly handle: number;
  readonly part: number;
  readonly at: number;
  readonly size: number;
}

/** S3 has the part: it is never sent again, and its segment is free. */
export interface SentRecord {
  readonly is: "sent";
  readonly handle: number;
  readonly part: number;
  readonly etag: string;
  readonly checksum?: string;
  readonly size: number;
  /** The last requests whose bytes are in it: recognised when they are sent again. */
  readonly by?: readonly string[];
}

/** A files_struct (FUSE: lock_owner) that wrote to the handle, opened it, or inherited it. */
export interface OwnerRecord {
  readonly is: "owner";
  readonly handle: number;
  readonly owner: string;
  readonly opened?: true | undefined;
  readonly inherited?: true | undefined;
  readonly optional: true;
}

/**
 * A signal has ended the last write of a file before all its bytes were taken. Without the record
 * the next engine would complete the file when its killed writer closes it.
 */
export interface CutRecord {
  readonly is: "cut";
  readonly handle: number;
  /** False: the writer has gone on since. */
  readonly isCut: boolean;
  readonly optional: true;
}

/**
 * The kernel has sent RELEASE, and has its answer: nobody tells a successor again that the last
 * descriptor is closed. An older release, which skips the record, aborts the file when its mount
 * ends unless it was closed or synced by then.
 */
export interface ReleasedRecord {
  readonly is: "released";
  readonly handle: number;
  readonly optional: true;
}

/** How an upload came to its end, or to where its end can only be learned from S3. */
export type EndingRecord =
  | { readonly is: "putting"; readonly handle: number; readonly nonce: string }
  | { readonly is: "completing"; readonly handle: number }
  | { readonly is: "completed"; readonly handle: number; readonly etag: string }
  /** More is written to a file that was PUT whole already. */
  | { readonly is: "continued"; readonly handle: number }
  | {
      readonly is: "failed";
      readonly handle: number;
      readonly code: string;
      readonly reason: string;
    };

/** An upload that will never be completed, until S3 has removed its parts. */
export interface DoomedRecord {
  readonly is: "doomed";
  readonly key: string;
  readonly uploadId: string;
  /** The upload's id is not known: it is one of this key that began since then, without parts. */
  readonly sinceMs?: number | undefined;
  /** With `sinceMs`: the upload did not begin later. Undefined: it may have. */
  readonly untilMs?: number | undefined;
}

/**
 * A request for an upload of this key was given up: S3 may execute it later. Looked for when the
 * mount ends, by the last of its engines.
 */
export interface SuspectRecord {
  readonly is: "suspect";
  readonly key: string;
  /** The upload is not older. */
  readonly sinceMs: number;
  /** The upload did not begin later. Undefined, as in older releases: it may have. */
  readonly untilMs?: number | undefined;
  readonly optional: true;
}

/**
 * One change of what an engine must know to go on where another one ended. Fields may be added:
 * who does not know one ignores it. A kind that older readers may skip is marked `optional`.
 */
export type JournalRecord =
  | {
      readonly is: "connection";
      readonly startedMs: number;
      readonly minor: number;
      readonly flags: number;
      readonly flags2: number;
    }
  /** No nodeid and no handle is given out twice. */
  | { readonly is: "next"; readonly id: number; readonly handle: number }
  | InodeRecord
  | {
      readonly is: "refs";
      readonly id: number;
      readonly refs: number;
      readonly unique?: string | undefined;
    }
  | { readonly is: "gone"; readonly id: number }
  | OpenRecord
  | ReleasedRecord
  /** Nothing is left of the handle: an upload has ended, too. */
  | { readonly is: "closed"; readonly handle: number }
  /** The item at `index` of a listing is the first one behind the key. */
  | {
      readonly is: "place";
      readonly handle: number;
      readonly index: number;
      readonly after: string;
    }
  | SegmentRecord
  | OwnerRecord
  /** Asked for before S3 is: an upload whose answer was lost can be found and removed. */
  | {
      readonly is: "creating";
      readonly handle: number;
      readonly nonce: string;
      readonly sinceMs: number;
    }
  | { readonly is: "created"; readonly handle: number; readonly uploadId: string }
  | SentRecord
  | CutRecord
  | EndingRecord
  | DoomedRecord
  | SuspectRecord
  | { readonly is: "aborted"; readonly uploadId: string }
  /** Before an object is deleted: a repeated request must not delete what came after it. */
  | {
      readonly is: "intent";
      readonly unique: string;
      readonly key: string;
      readonly etag: string;
    }
  /** What a request was answered, for as long as its answer may have been lost. */
  | OutcomeRecord;

export interface OutcomeRecord {
  readonly is: "outcome";
  readonly unique: string;
  readonly id?: number;
  readonly handle?: number;
  /** It failed, and fails the same way however often it comes. */
  readonly errno?: number;
}
