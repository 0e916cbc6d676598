import { Failure } from "../base/failure.ts";

/** The S3 server itself says that there is no such bucket; a 404 alone may be anybody's. */
export class NoSuchBucketFailure extends Failure {
  constructor(message: string, cause?: unknown) {
    super("absent", message, cause);
  }
}

export type Tags = Readonly<Record<string, string>>;

/** Why a call is not to be had: the server lacks it, or a policy keeps it from these keys. */
export type Unavailable = "unsupported" | "forbidden";

/**
 * `versions`: no object, yet noncurrent versions or delete markers. `no-objects`: no object, and
 * these keys may not list versions. `unknown`: these keys may not list the bucket.
 */
export type BucketContents = "objects" | "versions" | "nothing" | "no-objects" | "unknown";

/** The uploads to abort. */
export interface AbortRequest {
  readonly bucket: string;
  /** Empty: the whole bucket. */
  readonly prefix: string;
  /** By performance.now(): no further page is begun after it. */
  readonly deadlineMs: number;
}

/** The objects to delete; the uploads below the prefix are aborted with them. */
export interface EmptyRequest extends AbortRequest {
  /** All versions and delete markers; else only the current objects. */
  readonly versions: boolean;
  /** Calls for one volume get one and the same object. */
  readonly progress: EmptyingProgress;
}

/**
 * How far the calls have come since the first object that the server did not delete. Without it,
 * each call would try the objects under Object Lock at the front again, and none of those behind.
 */
export interface EmptyingProgress {
  /** This pass has deleted an object: the access key may delete. */
  hasDeleted?: true;
  refused?: {
    readonly first: Refusal;
    readonly count: number;
    /** Where the next call goes on. */
    readonly behind: ListMarker;
  };
}

/** An object that the server did not delete. */
export interface Refusal {
  readonly key: string;
  readonly versionId: string | undefined;
  readonly code: string;
  readonly message: string;
}

/** Fields of the next request for a page of a listing. */
export type ListMarker =
  | { readonly ContinuationToken: string }
  | { readonly KeyMarker: string; readonly VersionIdMarker?: string };

/** The S3 server's buckets, by somebody's keys. Every fault is a Failure. */
export interface Buckets {
  /** `ours`: made now, or by us before. `taken`: there is one, and the server says not ours. */
  create(bucket: string, signal: AbortSignal): Promise<"ours" | "taken">;
  exists(bucket: string, signal: AbortSignal): Promise<boolean>;
  /** Whether the holder of the keys owns it; `unknown` where the keys or the server do not tell. */
  owns(bucket: string, signal: AbortSignal): Promise<"yes" | "no" | "unknown">;
  contents(bucket: string, signal: AbortSignal): Promise<BucketContents>;
  tags(bucket: string, signal: AbortSignal): Promise<Tags | Unavailable>;
  setTags(bucket: string, tags: Tags, signal: AbortSignal): Promise<"set" | Unavailable>;
  /** Never a bucket that holds an object. `uploads`: unfinished uploads are in the way. */
  delete(
    bucket: string,
    signal: AbortSignal,
  ): Promise<"deleted" | "absent" | "not-empty" | "uploads">;
  /** The number of unfinished multipart uploads that were aborted; `more` as for `empty`. */
  abortUploads(request: AbortRequest, signal: AbortSignal): Promise<number | "more" | Unavailable>;
  /**
   * `more`: the deadline has passed before the last page. A next call goes on. A Failure that names
   * the first object that was not deleted comes when all others are, or at once when the access key
   * may not delete.
   */
  empty(request: EmptyRequest, signal: AbortSignal): Promise<"empty" | "more">;
}
