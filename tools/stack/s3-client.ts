import { S3Client } from "@aws-sdk/client-s3";
import type { S3Access } from "./s3-server.ts";

/** The official client, as the outside view on what the driver did. */
export function clientOf({ endpoint, region, accessKeyId, secretAccessKey }: S3Access): S3Client {
  const credentials = { accessKeyId, secretAccessKey };
  return new S3Client({ endpoint, region, credentials, forcePathStyle: true });
}
