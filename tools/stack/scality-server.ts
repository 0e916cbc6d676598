import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { escape } from "node:querystring";
import { Secret } from "../../src/base/secret.ts";
import { canonicalQuery, Signer, UNSIGNED_PAYLOAD } from "../../src/s3/sign.ts";
import { escapeXml, unescapeXml } from "../../src/s3/xml.ts";
import { bodyOf, keyOf, Relay } from "./relay.ts";
import type { RelayedAnswer } from "./relay.ts";
import { startS3Server } from "./s3-server.ts";
import type { S3Access, S3Server } from "./s3-server.ts";
import { isSignedBy } from "./signature.ts";

const KEY_BYTES_MAX = 915;
/** The milliseconds of every LastModified in a listing; a HEAD has whole seconds. */
const LISTED_FRACTION = ".789";
/** Headers that cloudserver 8.8 does not look at, whatever the request. */
const UNKNOWN_HEADERS = /^x-amz-(checksum-.+|sdk-checksum-algorithm|expected-bucket-owner)$/;
const CONDITIONS = /^if-(none-)?match$/;
const TIME = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** A request as it goes on to the real server. */
interface Asked {
  readonly method: string;
  readonly url: string;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/**
 * A real S3 server that behaves as Scality's cloudserver 8.8 does where that differs from AWS:
 * - checksums, a signed SHA-256 of the content and an expected bucket owner are ignored;
 *   Content-MD5 is enforced, and DeleteObjects needs it; trailing checksums are refused;
 * - If-Match and If-None-Match are ignored on PUT, Complete and DELETE, except for copies;
 * - a key above 915 bytes is KeyTooLong, a part for an upload that is gone NoSuchKey;
 * - a listing of uploads has encoded keys and does not say so; one of objects has milliseconds;
 * - a GET of a part answers 200, and so does a copy of a range that ends behind its source.
 *
 * A request with a valid signature by the server's own access key is signed again where it has to
 * be changed. A request with any other signature goes on as it is, and the real server refuses it.
 */
export async function startScalityServer(): Promise<S3Server> {
  await using owned = new AsyncDisposableStack();
  const server = owned.use(await startS3Server());
  const front = owned.use(await startScalityFront(server));
  const all = owned.move();
  return { ...server, endpoint: front.url, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** A profile in front of a server that is there already. */
export function startScalityFront(access: S3Access): Promise<AsyncDisposable & { url: string }> {
  return ScalityFront.start(access);
}

class ScalityFront extends Relay {
  readonly #access: S3Access;
  readonly #signer: Signer;

  private constructor(access: S3Access) {
    const { endpoint, region, accessKeyId, secretAccessKey } = access;
    super(endpoint);
    this.#access = access;
    const secret = new Secret(secretAccessKey);
    const credentials = { accessKeyId, secretAccessKey: secret, sessionToken: undefined };
    this.#signer = new Signer(credentials, region);
  }

  static start(access: S3Access): Promise<ScalityFront> {
    return new ScalityFront(access).listen();
  }

  protected async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = readRequest(request, await bodyOf(request));
    const answer = await this.#answer(asked);
    const length = asked.method === "HEAD" ? {} : { "content-length": String(answer.body.length) };
    response.writeHead(answer.status, { ...answer.headers, ...length });
    response.end(answer.body);
  }

  async #answer(asked: Asked): Promise<RelayedAnswer> {
    const isSigned = asked.headers["authorization"] !== undefined;
    if (isSigned && !isSignedBy(this.#access, asked)) return this.forward(asked, asked.body);
    return refusalOf(asked) ?? changeAnswer(asked, await this.#ask(asked, isSigned));
  }

  async #ask(asked: Asked, isSigned: boolean): Promise<RelayedAnswer> {
    const changed = await this.#withinSource(withoutUnknowns(asked));
    const isChanged = changed.body !== asked.body || changed.headers !== asked.headers;
    const headers = isChanged && isSigned ? this.#signAgain(changed) : changed.headers;
    return this.forward({ ...changed, headers }, changed.body);
  }

  /** The part of the range of an UploadPartCopy that its source has. */
  async #withinSource(asked: Asked): Promise<Asked> {
    const { "x-amz-copy-source": source, "x-amz-copy-source-range": range = "" } = asked.headers;
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    if (source === undefined || last === undefined) return asked;
    const { host = "", "x-amz-date": time = "" } = asked.headers;
    const url = source.startsWith("/") ? source : `/${source}`;
    const named = { url, key: "", query: new URLSearchParams(), body: Buffer.alloc(0) };
    const head = { ...named, method: "HEAD", headers: { host, "x-amz-date": time } };
    const found = await this.forward({ ...head, headers: this.#signAgain(head) }, head.body);
    const lastByte = Number(found.headers["content-length"]) - 1;
    if (found.status !== 200 || Number(last) <= lastByte) return asked;
    const clamped = { "x-amz-copy-source-range": `bytes=${first}-${lastByte}` };
    return { ...asked, headers: { ...asked.headers, ...clamped } };
  }

  #signAgain({ method, url, query, headers, body }: Asked): Record<string, string> {
    const [path = ""] = url.split("?");
    const { "x-amz-date": time = "", authorization: _, ...rest } = headers;
    const signedMs = Date.parse(time.replace(TIME, "$1-$2-$3T$4:$5:$6Z"));
    const length = { "content-length": String(body.length) };
    const request = { method, path, query: canonicalQuery([...query]) };
    const signable = { ...request, headers: { ...rest, ...length } };
    return this.#signer.sign({ ...signable, payloadSha256: UNSIGNED_PAYLOAD }, signedMs);
  }
}

function readRequest({ method = "", url = "", headers }: IncomingMessage, body: Buffer): Asked {
  const query = new URL(url, "http://s3").searchParams;
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return { method, url, key: keyOf({ url, headers }), query, headers: fromPairs(texts), body };
}

/** The request as cloudserver understands it. Unchanged parts are the same objects as before. */
function withoutUnknowns(asked: Asked): Asked {
  const { method, query, body } = asked;
  const isWrite = method === "PUT" || method === "POST" || method === "DELETE";
  const ignoresConditions = isWrite && asked.headers["x-amz-copy-source"] === undefined;
  const names = Object.keys(asked.headers).filter(
    (name) =>
      UNKNOWN_HEADERS.test(name) ||
      (ignoresConditions && CONDITIONS.test(name)) ||
      (name === "x-amz-content-sha256" &&
        body.length > 0 &&
        asked.headers[name] !== UNSIGNED_PAYLOAD),
  );
  const kept = Object.entries(asked.headers).filter(([name]) => !names.includes(name));
  const headers = names.length === 0 ? asked.headers : fromPairs(kept);
  if (method !== "POST" || !query.has("uploadId")) return { ...asked, headers };
  const text = body.toString("utf8");
  const bare = text.replaceAll(/<(Checksum\w+)>[^<]*<\/\1>/g, "");
  return { ...asked, headers, body: bare === text ? body : Buffer.from(bare) };
}

function refusalOf({ method, key, query, headers }: Asked): RelayedAnswer | undefined {
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) {
    const allowed = `Maximum number of bytes allowed in keys is ${KEY_BYTES_MAX}.`;
    return errorOf(method, 400, "KeyTooLong", `Object key is too long. ${allowed}`);
  }
  if (headers["x-amz-content-sha256"]?.endsWith("TRAILER") === true) {
    return errorOf(method, 400, "BadRequest", "unsupported checksum algorithm");
  }
  if (method === "POST" && query.has("delete") && headers["content-md5"] === undefined) {
    const text = "The Content-MD5 you specified did not match what we received.";
    return errorOf(method, 400, "BadDigest", text);
  }
  return undefined;
}

function changeAnswer(asked: Asked, answer: RelayedAnswer): RelayedAnswer {
  const { method, key, query } = asked;
  const known = Object.entries(answer.headers).filter(([name]) => !UNKNOWN_HEADERS.test(name));
  const { status, body } = answer;
  const headers = fromPairs(known);
  const text = () => body.toString("utf8");
  if (method === "PUT" && query.has("uploadId") && status === 404) {
    return errorOf(method, 404, "NoSuchKey", "The specified key does not exist.");
  }
  if (method !== "GET" || status >= 300) return { status, headers, body };
  if (key !== "") return { status: query.has("partNumber") ? 200 : status, headers, body };
  if (query.has("uploads"))
    return { status, headers, body: Buffer.from(encodeKeys(text(), query)) };
  const listed = text().replaceAll(
    /(<LastModified>[^<.]+)(\.\d+)?Z/g,
    (_, whole: string) => `${whole}${LISTED_FRACTION}Z`,
  );
  return { status, headers, body: Buffer.from(listed) };
}

function encodeKeys(document: string, query: URLSearchParams): string {
  const bare = document.replace(/<EncodingType>\w*<\/EncodingType>/, "");
  if (query.get("encoding-type") !== "url") return bare;
  return bare.replaceAll(/<Key>([^<]*)</g, (_, key: string) => `<Key>${escape(unescapeXml(key))}<`);
}

function errorOf(method: string, status: number, code: string, message: string): RelayedAnswer {
  const document = `<Error><Code>${code}</Code><Message>${escapeXml(message)}</Message></Error>`;
  const body = Buffer.from(method === "HEAD" ? "" : document);
  return { status, headers: { "content-type": "application/xml" }, body };
}

function fromPairs(pairs: readonly (readonly string[])[]): Record<string, string> {
  return Object.fromEntries(pairs) as Record<string, string>;
}
