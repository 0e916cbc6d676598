import type { FailureKind } from "../base/failure.ts";
import { Failure } from "../base/failure.ts";
import { readXml } from "./xml.ts";
import type { HttpResponse } from "./response-reader.ts";

interface S3Error {
  readonly code: string;
  readonly message: string;
  /** Where the bucket is, when the request was signed for another region. */
  readonly region: string | undefined;
  /** The server's clock, when it refuses ours. */
  readonly serverTime: string | undefined;
}

const NOTHING_SAID: S3Error = { code: "", message: "", region: undefined, serverTime: undefined };

const KIND_OF_CODE: Readonly<Record<string, FailureKind>> = {
  NoSuchBucket: "absent",
  NoSuchKey: "absent",
  NoSuchUpload: "absent",
  PreconditionFailed: "stale",
  InvalidRange: "stale", // shorter than what we know of it
  InvalidAccessKeyId: "denied",
  SignatureDoesNotMatch: "denied",
  AccessDenied: "denied",
  XAdminUserNotFound: "denied", // versitygw's word for an unknown key
  ExpiredToken: "denied",
  InvalidToken: "denied",
  InvalidObjectState: "denied", // in the archive
  AuthorizationHeaderMalformed: "invalid", // signed for another region
  PermanentRedirect: "invalid", // the bucket is in another region
  IllegalLocationConstraintException: "invalid",
  KeyTooLong: "invalid",
  KeyTooLongError: "invalid",
  InvalidArgument: "invalid",
  InvalidBucketName: "invalid",
  InvalidInput: "invalid", // a key that Scality's server keeps for itself
  InvalidLocationConstraint: "invalid",
};
const KIND_OF_STATUS: Readonly<Record<number, FailureKind>> = {
  401: "denied",
  403: "denied",
  404: "absent",
  412: "stale",
  416: "stale",
};
/** The words of AWS, whose limit is 1,024 bytes, and of Scality's server, whose limit is 915. */
const KEY_TOO_LONG_CODES = new Set(["KeyTooLongError", "KeyTooLong"]);
const RETRIED_CODES = new Set([
  "BadDigest", // damaged on its way: what we have here is still right
  "RequestTimeout",
  "SlowDown",
  "XAmzContentChecksumMismatch",
  "XAmzContentSHA256Mismatch",
]);

const SKEW_CODES = new Set(["RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"]);
/** Servers refuse from 15 minutes on; an unexplained 403 is blamed on the clock from here on. */
const SUSPECT_SKEW_MS = 5 * 60_000;
const NAMED_SKEW_MS = 1000;

/** The key has more bytes than the server takes. */
export class KeyTooLongFailure extends Failure {
  constructor(message: string) {
    super("invalid", message);
  }
}

/** An answer that is no success, as a Failure that names what was asked and what S3 said. */
export function failureOf(subject: string, response: HttpResponse): Failure {
  const { code, message } = errorIn(response);
  const kind = kindOf(code, response.status);
  const said = message === "" ? "" : ` (${message})`;
  const region = regionIn(response);
  const hint = region === undefined ? "" : `; use region ${region}`;
  const text = `${subject}: HTTP ${response.status} ${code}${said}${hint}`.trimEnd();
  return KEY_TOO_LONG_CODES.has(code) ? new KeyTooLongFailure(text) : new Failure(kind, text);
}

/** What S3's own words mean; `remote` where they mean nothing to us. */
export function kindOf(code: string, status: number): FailureKind {
  return KIND_OF_CODE[code] ?? KIND_OF_STATUS[status] ?? "remote";
}

/** Not now, says the endpoint or what stands before it: as good as unreachable. */
export function isAway({ status }: HttpResponse): boolean {
  return status === 503 || status === 429;
}

/** Worth another try: the endpoint is overloaded or half-way through something. */
export function isTransient(response: HttpResponse): boolean {
  if (response.status >= 500 && response.status !== 501) return true;
  if (response.status === 429 || response.status === 408) return true;
  return response.status === 400 && RETRIED_CODES.has(errorIn(response).code);
}

/** The region that a refused request should have been signed for, if S3 names one. */
export function regionIn(response: HttpResponse): string | undefined {
  if (!isRedirect(response.status)) return undefined;
  const region = response.headers.get("x-amz-bucket-region") ?? errorIn(response).region;
  return region !== undefined && /^[\w-]{1,64}$/.test(region) ? region : undefined;
}

/** The server's time, if it refused a request because of the time at which that was signed. */
export function serverTimeIn(response: HttpResponse, signedMs: number): number | undefined {
  const { code, serverTime } = errorIn(response);
  const isNamed = SKEW_CODES.has(code);
  // The answer to a HEAD has no document to name the reason.
  const isSuspect = response.status === 403 && code === "";
  if (!isNamed && !isSuspect) return undefined;
  const serverMs = Date.parse(serverTime ?? response.headers.get("date") ?? "");
  const limitMs = isNamed ? NAMED_SKEW_MS : SUSPECT_SKEW_MS;
  return Math.abs(serverMs - signedMs) > limitMs ? serverMs : undefined;
}

function isRedirect(status: number): boolean {
  return status === 301 || status === 307 || status === 400;
}

/** HEAD answers have no document, and proxies send HTML: then the status alone must do. */
function errorIn(response: HttpResponse): S3Error {
  if (response.body.length === 0) return NOTHING_SAID;
  try {
    const root = readXml(response.body.toString("utf8"));
    return {
      code: root.textOf("Code") ?? "",
      message: root.textOf("Message") ?? "",
      region: root.textOf("Region"),
      serverTime: root.textOf("ServerTime"),
    };
  } catch {
    return NOTHING_SAID;
  }
}
