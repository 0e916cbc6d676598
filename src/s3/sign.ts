import { hmacSha256, sha256 } from "../sys/openssl.ts";
import type { Credentials } from "./credentials.ts";

export const UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD";
export const EMPTY_PAYLOAD_SHA256 =
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** The headers that give a request its meaning. Proxies may rewrite all others. */
const SIGNED_HEADERS = /^(host|date|range|content-md5|content-type|if-.+|x-amz-.+)$/;

export interface Signable {
  readonly method: string;
  /** Percent-encoded already: S3 signs the path as it is sent. */
  readonly path: string;
  /** As canonicalQuery() gives it, and as it is sent. */
  readonly query: string;
  /** Lower-case names, `host` among them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly payloadSha256: string;
}

/** AWS Signature Version 4, in headers. One signer per bucket: it keeps the day's key. */
export class Signer {
  readonly credentials: Credentials;
  readonly #region: string;
  #second = -1;
  #time = "";
  #day = "";
  #dayKey: Buffer = Buffer.alloc(0);

  constructor(credentials: Credentials, region: string) {
    this.credentials = credentials;
    this.#region = region;
  }

  /** All headers to send: the given ones and those that the signature adds. */
  sign(request: Signable, nowMs: number): Record<string, string> {
    const time = this.#timeOf(nowMs);
    const headers: Record<string, string> = {
      ...request.headers,
      "x-amz-content-sha256": request.payloadSha256,
      "x-amz-date": time,
    };
    const { sessionToken } = this.credentials;
    if (sessionToken !== undefined) headers["x-amz-security-token"] = sessionToken.reveal();
    const names = Object.keys(headers)
      .filter((name) => SIGNED_HEADERS.test(name))
      .toSorted();
    const scope = `${time.slice(0, 8)}/${this.#region}/s3/aws4_request`;
    const canonical = [
      request.method,
      request.path,
      request.query,
      ...names.map((name) => `${name}:${canonicalValue(headers[name] ?? "")}`),
      "",
      names.join(";"),
      request.payloadSha256,
    ].join("\n");
    const toSign = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical).toString("hex")].join("\n");
    const signature = hmacSha256(this.#keyOf(time.slice(0, 8)), toSign).toString("hex");
    const credential = `${this.credentials.accessKeyId}/${scope}`;
    headers["authorization"] =
      `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names.join(";")}, ` +
      `Signature=${signature}`;
    return headers;
  }

  #timeOf(nowMs: number): string {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) this.#time = amzTime(nowMs);
    this.#second = second;
    return this.#time;
  }

  #keyOf(day: string): Buffer {
    if (day !== this.#day) {
      const dateKey = hmacSha256(`AWS4${this.credentials.secretAccessKey.reveal()}`, day);
      this.#dayKey = hmacSha256(
        hmacSha256(hmacSha256(dateKey, this.#region), "s3"),
        "aws4_request",
      );
      this.#day = day;
    }
    return this.#dayKey;
  }
}

/** RFC 3986, as the signature wants it: only unreserved characters stay. */
function percentEncode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** A key in a path: its slashes stay, all else is encoded. */
export function encodeKey(key: string): string {
  return key.split("/").map(percentEncode).join("/");
}

export function canonicalQuery(query: readonly (readonly [name: string, value: string])[]): string {
  return query
    .map(([name, value]) => [percentEncode(name), percentEncode(value)] as const)
    .toSorted(([left], [right]) => (left < right ? -1 : 1))
    .map((pair) => pair.join("="))
    .join("&");
}

function canonicalValue(value: string): string {
  return value.trim().replace(/ +/g, " ");
}

/** 20260131T235959Z */
function amzTime(nowMs: number): string {
  return new Date(nowMs).toISOString().replace(/[-:]|\.\d{3}/g, "");
}
