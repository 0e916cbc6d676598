import { urlDecode } from "./list-page.ts";
import { readXml } from "./xml.ts";

export interface ListedUpload {
  readonly key: string;
  readonly uploadId: string;
  readonly initiatedMs: number;
}

/** Reads a ListMultipartUploadsResult. */
export function readUploads(document: string): ListedUpload[] {
  const root = readXml(document);
  const encoded = root.textOf("EncodingType") === "url";
  return root.all("Upload").map((element) => {
    const key = element.textOf("Key") ?? "";
    return {
      key: encoded ? urlDecode(key) : key,
      uploadId: element.textOf("UploadId") ?? "",
      initiatedMs: Date.parse(element.textOf("Initiated") ?? "") || 0,
    };
  });
}

/** Whether a ListPartsResult names any. */
export function hasParts(document: string): boolean {
  return readXml(document).child("Part") !== undefined;
}
