import { Failure } from "../base/failure.ts";

const DEPTH_MAX = 32;
const NAMED: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};

const SLASH = 0x2f;
const EXCLAMATION = 0x21;
const QUESTION = 0x3f;
/** What a listing is made of. */
const PLAIN_NAMES = new Set(
  "Contents Key LastModified ETag Size StorageClass Owner CommonPrefixes Prefix".split(" "),
);

/** An element of the few documents that S3 speaks: no attributes, no mixed content. */
export class XmlElement {
  readonly name: string;
  readonly children: XmlElement[] = [];
  text = "";

  constructor(name: string) {
    this.name = name;
  }

  all(name: string): XmlElement[] {
    return this.children.filter((child) => child.name === name);
  }

  child(name: string): XmlElement | undefined {
    for (const child of this.children) if (child.name === name) return child;
    return undefined;
  }

  /** The text of a direct child; undefined when there is no such child. */
  textOf(name: string): string | undefined {
    return this.child(name)?.text;
  }
}

/**
 * Reads one document into its root element; a Failure for what is not a document. Namespaces
 * are dropped with their prefix, comments and processing instructions are skipped.
 */
export function readXml(source: string): XmlElement {
  const document = new XmlElement("");
  const open = [document];
  let at = 0;
  while (at < source.length) {
    const top = open.at(-1) ?? document;
    const tagAt = source.indexOf("<", at);
    top.text += unescapeXml(source.slice(at, tagAt === -1 ? source.length : tagAt));
    if (tagAt === -1) break;
    at = readMarkup(source, tagAt, open);
  }
  const [root] = document.children;
  if (open.length !== 1 || root === undefined || document.children.length !== 1) {
    throw malformed("an element has no end, or there is none");
  }
  return root;
}

/** Reads what begins with `<` and returns the position behind it. */
function readMarkup(source: string, at: number, open: XmlElement[]): number {
  const next = source.charCodeAt(at + 1);
  if (next === SLASH) return closeElement(source, at, open);
  if (next !== EXCLAMATION && next !== QUESTION) return openElement(source, at, open);
  if (source.startsWith("<!--", at)) return skipPast(source, "-->", at + 4);
  if (source.startsWith("<![CDATA[", at)) {
    const end = skipPast(source, "]]>", at);
    const top = open.at(-1);
    if (top !== undefined) top.text += source.slice(at + 9, end - 3);
    return end;
  }
  return skipPast(source, next === QUESTION ? "?>" : ">", at);
}

function openElement(source: string, at: number, open: XmlElement[]): number {
  const end = skipPast(source, ">", at);
  if (open.length > DEPTH_MAX) throw malformed("nested too deep");
  const element = new XmlElement(nameIn(source.slice(at + 1, end - 1)));
  open.at(-1)?.children.push(element);
  if (source.charCodeAt(end - 2) !== SLASH) open.push(element);
  return end;
}

function closeElement(source: string, at: number, open: XmlElement[]): number {
  const end = skipPast(source, ">", at);
  const name = nameIn(source.slice(at + 2, end - 1));
  if (open.length === 1 || open.pop()?.name !== name) throw malformed(`unexpected </${name}>`);
  return end;
}

/** Most tags are nothing but a name; the search for more is what a listing's time went into. */
function nameIn(tag: string): string {
  if (PLAIN_NAMES.has(tag)) return tag;
  const name = /^[^\s/]+/.exec(tag)?.[0].replace(/^.*:/, "");
  if (name === undefined) throw malformed("a tag without a name");
  return name;
}

function skipPast(source: string, mark: string, from: number): number {
  const at = source.indexOf(mark, from);
  if (at === -1) throw malformed(`no ${mark}`);
  return at + mark.length;
}

export function unescapeXml(text: string): string {
  if (!text.includes("&")) return text;
  // By far the most: the quotes around an ETag.
  const plain = text.replaceAll("&quot;", '"').replaceAll("&#34;", '"');
  if (!plain.includes("&")) return plain;
  return text.replace(/&(#x[0-9a-fA-F]{1,6}|#\d{1,7}|[a-z]{1,5});/g, (whole, code: string) => {
    if (!code.startsWith("#")) return NAMED[code] ?? whole;
    const point = code.startsWith("#x")
      ? Number.parseInt(code.slice(2), 16)
      : Number(code.slice(1));
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}

/** For the one document that we write ourselves. */
export function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function malformed(why: string): Failure {
  return new Failure("remote", `the endpoint's answer is not XML: ${why}`);
}
