import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import { etagOf } from "./etag.ts";
import type { UploadedPart } from "./object-store.ts";
import type { HttpResponse } from "./response-reader.ts";
import { escapeXml, readXml } from "./xml.ts";

/** S3 may answer 200 and say in the document that it failed. */
export function readCompletion(key: string, response: HttpResponse): { etag: string } {
  const root = readXml(response.body.toString("utf8"));
  if (root.name === "CompleteMultipartUploadResult") {
    return { etag: etagOf(root.textOf("ETag")) };
  }
  throw new Failure("remote", `completing ${key}: ${root.textOf("Code") ?? root.name}`);
}

/** Names the parts of an upload in their order. */
export function completeDocument(
  parts: readonly UploadedPart[],
  sumName: string | undefined,
): Buffer {
  const elements = parts.map(({ partNumber, etag, checksum }) => {
    const sum = checksum && sumName ? `<${sumName}>${checksum}</${sumName}>` : "";
    const tag = `<ETag>${escapeXml(etag)}</ETag>`;
    return `<Part><PartNumber>${partNumber}</PartNumber>${tag}${sum}</Part>`;
  });
  const text = `<CompleteMultipartUpload>${elements.join("")}</CompleteMultipartUpload>`;
  return Buffer.from(text, "utf8");
}
