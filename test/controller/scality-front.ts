import { ListMultipartUploadsCommand, ListObjectVersionsCommand } from "@aws-sdk/client-s3";
import { clientOf } from "../../tools/stack/s3-client.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";
import type { Passing, Saying } from "../provisioner/faulty-line.ts";

const IN_PROGRESS: Saying = { status: 409, code: "MPUinProgress" };
const NO_MD5: Saying = { status: 400, code: "InvalidRequest" };

/**
 * For a FaultyLine: the answers of those Scality releases that delete no bucket while an upload is
 * open in it, and that take DeleteObjects with Content-MD5 alone.
 */
export function scalityFront(s3: S3Access) {
  const client = clientOf(s3);
  return async ({ method, path, headers }: Passing): Promise<Saying | undefined> => {
    const { pathname, searchParams } = new URL(path, s3.endpoint);
    if (method === "POST" && searchParams.has("delete")) {
      return headers["content-md5"] === undefined ? NO_MD5 : undefined;
    }
    const [Bucket = "", key = ""] = pathname.slice(1).split("/");
    if (method !== "DELETE" || key !== "" || searchParams.has("tagging")) return undefined;
    const held = await client.send(new ListObjectVersionsCommand({ Bucket, MaxKeys: 1 }));
    if ((held.Versions ?? []).length + (held.DeleteMarkers ?? []).length > 0) return undefined;
    const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }));
    return Uploads.length === 0 ? undefined : IN_PROGRESS;
  };
}
