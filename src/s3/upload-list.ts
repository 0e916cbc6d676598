import { urlDecode } from "./list-page.ts";
import { readXml } from "./xml.ts";

export interface ListedUpload {
  /** Whether it is an upload of this key, as far as the listing tells. */
  readonly isOf: (key: string) => boolean;
  readonly uploadId: string;
  readonly initiatedMs: number;
}

/**
 * Reads a ListMultipartUploadsResult that was asked for with `encoding-type=url`. A server that
 * does not say EncodingType may have ignored that, as versitygw does, or may encode all the same,
 * as Scality's does: then a key in either form counts. Requests for an upload carry its key as well
 * as its id, so that an upload of another key which only looks the same is never touched.
 */
export function readUploads(document: string): ListedUpload[] {
  const root = readXml(document);
  const isEncoded = root.textOf("EncodingType") === "url";
  return root.all("Upload").map((element) => {
    const listed = element.textOf("Key") ?? "";
    return {
      isOf: (key) => urlDecode(listed) === key || (!isEncoded && listed === key),
      uploadId: element.textOf("UploadId") ?? "",
      initiatedMs: Date.parse(element.textOf("Initiated") ?? "") || 0,
    };
  });
}

/** Whether a ListPartsResult names any. */
export function hasParts(document: string): boolean {
  return readXml(document).child("Part") !== undefined;
}
