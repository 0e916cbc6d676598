export type Tags = Readonly<Record<string, string>>;

/** Why there are no tags: the server has none, or a policy keeps them from these keys. */
export type NoTags = "unsupported" | "forbidden";

/** The S3 server's buckets, by somebody's keys. Every fault is a Failure. */
export interface Buckets {
  /** `ours`: made now, or by us before. `taken`: there is one, and the server says not ours. */
  create(bucket: string, signal: AbortSignal): Promise<"ours" | "taken">;
  exists(bucket: string, signal: AbortSignal): Promise<boolean>;
  /** Whether the holder of the keys owns it; `unknown` where the keys or the server do not tell. */
  owns(bucket: string, signal: AbortSignal): Promise<"yes" | "no" | "unknown">;
  isEmpty(bucket: string, signal: AbortSignal): Promise<boolean>;
  tags(bucket: string, signal: AbortSignal): Promise<Tags | NoTags>;
  setTags(bucket: string, tags: Tags, signal: AbortSignal): Promise<"set" | NoTags>;
  /** Never what still holds an object. */
  delete(bucket: string, signal: AbortSignal): Promise<"deleted" | "absent" | "not-empty">;
  /** Removes the objects below a prefix; what is done is done when it fails half-way. */
  empty(bucket: string, prefix: string, signal: AbortSignal): Promise<void>;
}
