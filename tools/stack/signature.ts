import { createHash, createHmac } from "node:crypto";
import { canonicalQuery } from "../../src/s3/sign.ts";
import type { S3Access } from "./s3-server.ts";

export interface SignedRequest {
  readonly method: string;
  /** The path and the query as they were sent. */
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A client chooses which headers it signs. */
const AUTHORIZATION = new RegExp(
  "^AWS4-HMAC-SHA256 Credential=(?<key>[^/]+)/(?<scope>(?<day>\\d{8})/(?<region>[^/]+)/s3/" +
    "aws4_request), ?SignedHeaders=(?<names>[^,]+), ?Signature=(?<signature>[0-9a-f]{64})$",
);

/** Whether the request has a valid AWS Signature Version 4 by this access key in its headers. */
export function isSignedBy(access: S3Access, { method, url, headers }: SignedRequest): boolean {
  const parts = AUTHORIZATION.exec(headers["authorization"] ?? "")?.groups;
  if (parts === undefined || parts["key"] !== access.accessKeyId) return false;
  const { scope = "", day = "", region = "", names = "", signature } = parts;
  const { pathname, searchParams } = splitUrl(url);
  const canonical = [
    method,
    pathname,
    canonicalQuery([...searchParams]),
    ...names.split(";").map((name) => `${name}:${canonicalValue(headers[name])}`),
    "",
    names,
    headers["x-amz-content-sha256"],
  ].join("\n");
  const hash = createHash("sha256").update(canonical).digest("hex");
  const toSign = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hash].join("\n");
  const secret = `AWS4${access.secretAccessKey}`;
  const key = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(hmac, secret);
  return hmac(key, toSign).toString("hex") === signature;
}

/** The path stays encoded as it was sent: S3 signs it so. */
function splitUrl(url: string): { pathname: string; searchParams: URLSearchParams } {
  const [pathname = "", query = ""] = url.split("?");
  return { pathname, searchParams: new URLSearchParams(query) };
}

function canonicalValue(value = ""): string {
  return value.trim().replace(/ +/g, " ");
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
