export type Tags = Readonly<Record<string, string>>;

/** The S3 server's buckets, by somebody's keys. Every fault is a Failure. */
export interface Buckets {
  /** `ours`: made now, or by us before. `taken`: there is one, and the server says not ours. */
  create(bucket: string, signal: AbortSignal): Promise<"ours" | "taken">;
  exists(bucket: string, signal: AbortSignal): Promise<boolean>;
  /** Undefined where the server has no tags, or the keys may not see them. */
  tags(bucket: string, signal: AbortSignal): Promise<Tags | undefined>;
  /** False where the server has no tags, or the keys may not set them. */
  setTags(bucket: string, tags: Tags, signal: AbortSignal): Promise<boolean>;
  /** Never what still holds an object. */
  delete(bucket: string, signal: AbortSignal): Promise<"deleted" | "absent" | "not-empty">;
  /** Removes the objects below a prefix; what is done is done when it fails half-way. */
  empty(bucket: string, prefix: string, signal: AbortSignal): Promise<void>;
}
