import { Failure } from "../base/failure.ts";
import { etagOf } from "./etag.ts";
import { readModificationTime } from "./modification-time.ts";
import { objectSizeOf } from "./object-size.ts";
import type { ListedObject, ListPage } from "./object-store.ts";
import { PermanentFailure } from "./retry.ts";
import type { XmlElement } from "./xml.ts";
import { readXml, unescapeXml } from "./xml.ts";

/** Storage classes whose objects can't be read before they are restored. */
export const ARCHIVES: ReadonlySet<string> = new Set(["GLACIER", "DEEP_ARCHIVE"]);

type Decode = (text: string) => string;

/**
 * Reads a ListBucketResult. What makes it long, its objects, is cut out first and read when it is
 * asked for: whoever wants the next page as well can ask for it before that.
 */
export function readListPage(document: string): ListPage {
  const { root, objects } = cutOpen(document);
  if (root.name !== "ListBucketResult") {
    throw new Failure("remote", `a listing was asked for, and <${root.name}> came`);
  }
  // Servers that ignore `encoding-type=url` do not say EncodingType.
  const decode = root.textOf("EncodingType") === "url" ? urlDecode : (text: string) => text;
  const truncated = root.textOf("IsTruncated") === "true";
  const nextToken = root.textOf("NextContinuationToken");
  if (truncated && nextToken === undefined) {
    throw new Failure("remote", "a listing that goes on, and does not say where");
  }
  return new CutPage(root, objects, truncated ? nextToken : undefined, decode);
}

class CutPage implements ListPage {
  readonly prefixes: readonly string[];
  readonly nextToken: string | undefined;
  readonly #root: XmlElement;
  readonly #cut: readonly string[];
  readonly #decode: Decode;
  #objects: readonly ListedObject[] | undefined;

  constructor(
    root: XmlElement,
    cut: readonly string[],
    nextToken: string | undefined,
    decode: Decode,
  ) {
    const prefixes = root.all("CommonPrefixes");
    this.prefixes = prefixes.map((element) => decode(element.textOf("Prefix") ?? ""));
    this.nextToken = nextToken;
    this.#root = root;
    this.#cut = cut;
    this.#decode = decode;
  }

  get objects(): readonly ListedObject[] {
    this.#objects ??= [
      ...this.#cut.map((block) => readBlock(block, this.#decode)),
      ...this.#root.all("Contents").map((element) => readObject(element, this.#decode)),
    ];
    return this.#objects;
  }
}

/** The texts of the objects, and a tree of the rest; or all as a tree, where that is not safe. */
function cutOpen(document: string): { root: XmlElement; objects: string[] } {
  const objects: string[] = [];
  // Comments and CDATA may contain anything, also what looks like an end.
  if (document.includes("<!")) return { root: readXml(document), objects };
  const root = readXml(cutOut("Contents", document, objects));
  // Written in two ways: only the tree has the order.
  if (root.child("Contents") !== undefined) return { root: readXml(document), objects: [] };
  return { root, objects };
}

/** The document without the elements of this name; what is in them goes into `cut`. */
function cutOut(name: string, document: string, cut: string[]): string {
  const [start, end] = [`<${name}>`, `</${name}>`];
  const rest: string[] = [];
  let at = 0;
  for (;;) {
    const startAt = document.indexOf(start, at);
    const endAt = startAt === -1 ? -1 : document.indexOf(end, startAt);
    if (endAt === -1) break;
    if (startAt > at) rest.push(document.slice(at, startAt));
    cut.push(document.slice(startAt + start.length, endAt));
    at = endAt + end.length;
  }
  rest.push(document.slice(at));
  return rest.join("");
}

/** The usual object is a row of `<Name>text</Name>`; any other one is read as what it is: XML. */
function readBlock(block: string, decode: Decode): ListedObject {
  for (const row of knownRows) {
    const found = row.pattern.exec(block);
    if (found !== null) return objectOf(row, found, decode);
  }
  const row = rowOf(block);
  const found = row?.pattern.exec(block);
  if (!row || !found) return readObject(readXml(`<Contents>${block}</Contents>`), decode);
  knownRows.unshift(row);
  knownRows.splice(ROWS_MAX);
  return objectOf(row, found, decode);
}

function objectOf(row: Row, found: RegExpExecArray, decode: Decode): ListedObject {
  const { key, etag, size, time, storageClass } = row;
  const name = decode(unescapeXml(found[key] ?? ""));
  return {
    key: name,
    etag: etagOf(unescapeXml(found[etag] ?? "")),
    sizeBytes: sizeIn(found[size], name),
    mtimeMs: readModificationTime(found[time] ?? ""),
    archived: ARCHIVES.has(found[storageClass] ?? ""),
  };
}

/** Which fields a row has, in which order, and where in a match of it the ones are that we need. */
interface Row {
  readonly pattern: RegExp;
  readonly key: number;
  readonly etag: number;
  readonly size: number;
  readonly time: number;
  readonly storageClass: number;
}

/**
 * A server writes its rows in a few ways, with a checksum or without: to match one is faster than
 * to look what is in it. Those that were met last come first.
 */
const knownRows: Row[] = [];
const ROWS_MAX = 8;

function rowOf(block: string): Row | undefined {
  const names: string[] = [];
  const rest = block.replaceAll(/\s*<([A-Za-z]+)>[^<]*<\/\1>/g, (_, name: string) => {
    names.push(name);
    return "";
  });
  if (rest.trim() !== "") return undefined;
  const groups = names.map((name) => `\\s*<${name}>([^<]*)</${name}>`);
  // Behind the last group there is nothing: that is where a field is that the row does not have.
  const groupOf = (name: string) => names.indexOf(name) + 1 || names.length + 1;
  return {
    pattern: new RegExp(`^${groups.join("")}\\s*$`),
    key: groupOf("Key"),
    etag: groupOf("ETag"),
    size: groupOf("Size"),
    time: groupOf("LastModified"),
    storageClass: groupOf("StorageClass"),
  };
}

function readObject(element: XmlElement, decode: Decode): ListedObject {
  const restored = element.child("RestoreStatus")?.textOf("IsRestoreInProgress") === "false";
  const key = decode(element.textOf("Key") ?? "");
  return {
    key,
    etag: etagOf(element.textOf("ETag")),
    sizeBytes: sizeIn(element.textOf("Size"), key),
    mtimeMs: readModificationTime(element.textOf("LastModified") ?? ""),
    archived: ARCHIVES.has(element.textOf("StorageClass") ?? "") && !restored,
  };
}

function sizeIn(text: string | undefined, key: string): number {
  const sizeBytes = objectSizeOf(text);
  if (sizeBytes !== undefined) return sizeBytes;
  throw new PermanentFailure(`the listing has no valid Size of ${key}`);
}

export function urlDecode(text: string): string {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text; // a key that is not UTF-8: it can't be a file name of ours anyway
  }
}
