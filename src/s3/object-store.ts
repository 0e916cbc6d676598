import type { Buffer } from "node:buffer";

export interface ObjectInfo {
  readonly etag: string;
  readonly sizeBytes: number;
  readonly mtimeMs: number;
  /** In an archive, and not restored: it can be listed and not read. */
  readonly archived: boolean;
}

export interface ListedObject extends ObjectInfo {
  readonly key: string;
}

export interface ListQuery {
  readonly prefix: string;
  readonly delimiter: "/" | "";
  readonly keysMax: number;
  readonly continuationToken: string | undefined;
  /** The first page begins behind this key. */
  readonly startAfter?: string | undefined;
}

export interface ListPage {
  readonly objects: readonly ListedObject[];
  readonly prefixes: readonly string[];
  readonly nextToken: string | undefined;
}

export interface RangeRead {
  readonly key: string;
  /** Version and size of the object that the range is of: bytes of another one are refused. */
  readonly etag: string;
  readonly objectBytes: number;
  readonly offsetBytes: number;
  /** As long as the range: it is filled from its start. */
  readonly into: Buffer;
  readonly onFilled: (filledBytes: number) => void;
  readonly goesOn?: ReadOn | undefined;
}

/**
 * The reader will probably go on: all is asked for at once, and a read with the same `until` that
 * begins where the last one has ended takes up the same answer.
 */
export interface ReadOn {
  readonly endBytes: number;
  /** Then nobody goes on. */
  readonly until: AbortSignal;
}

export interface UploadedPart {
  readonly partNumber: number;
  readonly etag: string;
  /** What S3 verified it by, to be said again at the end. */
  readonly checksum?: string;
}

/** What S3 verifies a body by, summed up while its bytes come, in their order. */
export interface RunningSum {
  add(data: Uint8Array): void;
  /** Of all that was added so far. */
  readonly value: string;
}

/** Where the contents of objects come from. */
export interface ObjectReader {
  /**
   * Fails with `stale` when the object is no longer the one with that ETag. However it ends, from
   * then on nobody writes into the buffer: its memory may be gone.
   */
  read(range: RangeRead, signal: AbortSignal): Promise<void>;
}

/** One bucket as the engine sees it. Failures: `absent`, `denied`, `stale`, `remote`. */
export interface ObjectStore extends ObjectReader {
  /**
   * A time of day that the clock of S3 has reached already: what begins in S3 from now on is not
   * older. Up to 15 minutes early while the clock of S3 is not known.
   */
  earliestNowMs(): number;
  head(key: string, signal: AbortSignal): Promise<ObjectInfo | undefined>;
  list(query: ListQuery, signal: AbortSignal): Promise<ListPage>;
  /** For a body that is about to come; undefined: it is not verified by a sum of ours. */
  startSum(): Promise<RunningSum | undefined>;
  /** The nonce stays with the object: see findOwn(). `sum`: if somebody has it already. */
  put(
    key: string,
    body: Uint8Array,
    nonce: string,
    signal: AbortSignal,
    sum?: string,
  ): Promise<{ etag: string }>;
  /** The ETag of the object at `key` if it was made with that nonce, else nothing. */
  findOwn(key: string, nonce: string, signal: AbortSignal): Promise<string | undefined>;
  createUpload(key: string, nonce: string, signal: AbortSignal): Promise<string>;
  /**
   * Removes uploads of this key without any part that began since then, by the clock of S3: nobody
   * has their id. Does nothing where the credentials do not suffice to find or to remove them.
   * `untilMs`: after that S3 refuses the requests that asked for such an upload, by the age of
   * their signatures; later uploads are of others.
   */
  abortStrays(key: string, sinceMs: number, signal: AbortSignal, untilMs?: number): Promise<void>;
  uploadPart(
    key: string,
    uploadId: string,
    partNumber: number,
    body: Uint8Array,
    signal: AbortSignal,
    sum?: string,
  ): Promise<UploadedPart>;
  completeUpload(
    key: string,
    uploadId: string,
    parts: readonly UploadedPart[],
    nonce: string,
    signal: AbortSignal,
  ): Promise<{ etag: string }>;
  abortUpload(key: string, uploadId: string, signal: AbortSignal): Promise<void>;
  /**
   * Deleting what is not there is a success, as S3 says. With an ETag, a DELETE whose answer was
   * lost is repeated only while the object is still that version.
   */
  delete(key: string, signal: AbortSignal, etag?: string): Promise<void>;
}
