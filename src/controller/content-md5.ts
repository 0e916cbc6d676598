import { createHash } from "node:crypto";
import type { S3Client } from "@aws-sdk/client-s3";

/** Calls that S3 refuses without a checksum of their document. */
const CALLS: ReadonlySet<unknown> = new Set(["DeleteObjectsCommand", "PutBucketTaggingCommand"]);

/**
 * Content-MD5 is the checksum that every server knows: Scality's asks for it, and does not take the
 * CRC that the SDK sends by default in its place.
 */
export function addContentMd5(client: S3Client): void {
  client.middlewareStack.add(
    (next, context) => (args) => {
      const request = args.request as { headers: Record<string, string>; body?: unknown };
      if (!CALLS.has(context["commandName"]) || typeof request.body !== "string") return next(args);
      const others = Object.entries(request.headers).filter(
        ([name]) => !/^x-amz-(sdk-)?checksum-/i.test(name),
      );
      const md5 = createHash("md5").update(request.body).digest("base64");
      request.headers = { ...Object.fromEntries(others), "content-md5": md5 };
      return next(args);
    },
    { step: "build", priority: "low", name: "contentMd5" },
  );
}
