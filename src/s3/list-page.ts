import { Failure } from "../base/failure.ts";
import type { ListedObject, ListPage } from "./object-store.ts";
import type { XmlElement } from "./xml.ts";
import { readXml } from "./xml.ts";

const ARCHIVES = new Set(["GLACIER", "DEEP_ARCHIVE"]);

/** Reads a ListBucketResult. Servers that ignore `encoding-type=url` do not say EncodingType. */
export function readListPage(document: string): ListPage {
  const root = readXml(document);
  if (root.name !== "ListBucketResult") {
    throw new Failure("remote", `a listing was asked for, and <${root.name}> came`);
  }
  const decode = root.textOf("EncodingType") === "url" ? urlDecode : (text: string) => text;
  const truncated = root.textOf("IsTruncated") === "true";
  const nextToken = root.textOf("NextContinuationToken");
  if (truncated && nextToken === undefined) {
    throw new Failure("remote", "a listing that goes on, and does not say where");
  }
  return {
    objects: root.all("Contents").map((element) => readObject(element, decode)),
    prefixes: root.all("CommonPrefixes").map((element) => decode(element.textOf("Prefix") ?? "")),
    nextToken: truncated ? nextToken : undefined,
  };
}

function readObject(element: XmlElement, decode: (text: string) => string): ListedObject {
  const restored = element.child("RestoreStatus")?.textOf("IsRestoreInProgress") === "false";
  return {
    key: decode(element.textOf("Key") ?? ""),
    etag: element.textOf("ETag") ?? "",
    sizeBytes: Number(element.textOf("Size") ?? 0),
    mtimeMs: Date.parse(element.textOf("LastModified") ?? "") || 0,
    archived: ARCHIVES.has(element.textOf("StorageClass") ?? "") && !restored,
  };
}

export function urlDecode(text: string): string {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text; // a key that is not UTF-8: it can't be a file name of ours anyway
  }
}
