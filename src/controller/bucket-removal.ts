import { Failure, UnfinishedFailure } from "../base/failure.ts";
import type { OnDelete } from "../volume/volume-handle.ts";
import type { BucketContents, Buckets, EmptyingProgress } from "./buckets.ts";

export interface BucketRemoval {
  readonly bucket: string;
  readonly onDelete: OnDelete;
  /** By performance.now(): the removal ends after it, and goes on with the next call. */
  readonly deadlineMs: number;
  readonly progress: EmptyingProgress;
}

/** A client that starts uploads all the time can't hold up the deletion of a volume for ever. */
const ROUNDS_MAX = 3;

/** Removes the bucket of a volume. Returns why it is kept; undefined when it is gone. */
export async function removeBucket(
  removal: BucketRemoval,
  buckets: Buckets,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { bucket, onDelete, deadlineMs, progress } = removal;
  if (onDelete === "retain") return `bucket ${bucket} is kept: onDelete is retain`;
  if (onDelete === "delete") {
    const request = { bucket, prefix: "", versions: true, deadlineMs, progress };
    if ((await buckets.empty(request, signal)) === "more") throw unfinished(`bucket ${bucket}`);
  }
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const done = await buckets.delete(bucket, signal);
    if (done === "deleted" || done === "absent") return undefined;
    const contents = await buckets.contents(bucket, signal);
    if (onDelete === "delete" && ["objects", "versions"].includes(contents)) {
      const why = "objects are still written to it, or have keys that the server lists wrongly";
      throw new Failure("remote", `bucket ${bucket} was emptied and is not empty: ${why}`);
    }
    // Servers that say BucketNotEmpty of a bucket without objects may mean its uploads.
    const why = whyKept(done, contents) ?? (await whyUploadsStay(removal, done, buckets, signal));
    if (why !== undefined) return `bucket ${bucket} is kept: ${why}`;
  }
  return `bucket ${bucket} is kept: uploads are started in it as fast as they are aborted`;
}

/** Not an error: the caller comes back, and the next call goes on with the rest. */
export function unfinished(what: string): Failure {
  return new UnfinishedFailure(`${what} is being emptied: it holds more than one call deletes`);
}

function whyKept(done: "not-empty" | "uploads", contents: BucketContents): string | undefined {
  switch (contents) {
    case "objects":
      return "it is not empty";
    case "versions":
      return "it holds no object, yet noncurrent versions or delete markers";
    case "no-objects":
      if (done === "uploads") return undefined;
      return "it is not empty, and the keys lack s3:ListBucketVersions to see why";
    case "unknown":
      if (done === "not-empty") return "it is not empty";
      return "it has unfinished uploads, and the keys lack s3:ListBucket to see what else";
    case "nothing":
      return undefined;
    default:
      return contents satisfies never;
  }
}

/** Uploads of a bucket whose volume is deleted belong to nobody: no mount can complete them. */
async function whyUploadsStay(
  { bucket, deadlineMs }: BucketRemoval,
  done: "not-empty" | "uploads",
  buckets: Buckets,
  signal: AbortSignal,
): Promise<string | undefined> {
  const aborted = await buckets.abortUploads({ bucket, prefix: "", deadlineMs }, signal);
  if (aborted === "more") throw unfinished(`bucket ${bucket}`);
  if (aborted === "forbidden") {
    const rights = "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload";
    return `it has unfinished uploads, and the keys lack ${rights}`;
  }
  if (aborted === "unsupported") return "it has unfinished uploads that the server does not list";
  const isUnexplained = done === "not-empty" && aborted === 0;
  return isUnexplained ? "the server says that it is not empty, and lists nothing" : undefined;
}
