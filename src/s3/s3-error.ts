import type { FailureKind } from "../base/failure.ts";
import { Failure } from "../base/failure.ts";
import { readXml } from "./xml.ts";
import type { HttpResponse } from "./response-reader.ts";

interface S3Error {
  readonly code: string;
  readonly message: string;
}

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
  InvalidBucketName: "invalid",
  InvalidLocationConstraint: "invalid",
};
const KIND_OF_STATUS: Readonly<Record<number, FailureKind>> = {
  401: "denied",
  403: "denied",
  404: "absent",
  412: "stale",
  416: "stale",
};
const RETRIED_CODES = new Set([
  "BadDigest", // damaged on its way: what we have here is still right
  "RequestTimeTooSkewed",
  "RequestTimeout",
  "SlowDown",
  "XAmzContentChecksumMismatch",
  "XAmzContentSHA256Mismatch",
]);

/** An answer that is no success, as a Failure that names what was asked and what S3 said. */
export function failureOf(subject: string, response: HttpResponse): Failure {
  const { code, message } = errorIn(response);
  const kind = kindOf(code, response.status);
  const said = message === "" ? "" : ` (${message})`;
  const region = response.headers.get("x-amz-bucket-region");
  const hint = isRedirect(response.status) && region !== undefined ? `; use region ${region}` : "";
  return new Failure(kind, `${subject}: HTTP ${response.status} ${code}${said}${hint}`.trimEnd());
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

function isRedirect(status: number): boolean {
  return status === 301 || status === 307 || status === 400;
}

/** HEAD answers have no document, and proxies send HTML: then the status alone must do. */
function errorIn(response: HttpResponse): S3Error {
  if (response.body.length === 0) return { code: "", message: "" };
  try {
    const root = readXml(response.body.toString("utf8"));
    return { code: root.textOf("Code") ?? "", message: root.textOf("Message") ?? "" };
  } catch {
    return { code: "", message: "" };
  }
}
