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
  | { readonly is: "closed"; readonly handle: number }
  /** The item at `index` of a listing is the first one behind the key. */
  | {
      readonly is: "place";
      readonly handle: number;
      readonly index: number;
      readonly after: string;
    }
  | SegmentRecord
  /** Asked for before S3 is: an upload whose answer was lost can be found and removed. */
  | {
      readonly is: "creating";
      readonly handle: number;
      readonly nonce: string;
      readonly sinceMs: number;
    }
  | { readonly is: "created"; readonly handle: number; readonly uploadId: string }
  | SentRecord
  | EndingRecord
  /** Parts that nobody will complete, until S3 has forgotten them. */
  | { readonly is: "doomed"; readonly key: string; readonly uploadId: string }
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
