import { Failure } from "../base/failure.ts";
import { kindOf } from "../s3/s3-error.ts";
import { NoSuchBucketFailure } from "./buckets.ts";
import type { Unavailable } from "./buckets.ts";

/** The S3 server's answer as the SDK throws it; status 0 when no answer came. */
export interface S3Answer {
  readonly code: string;
  readonly status: number;
  readonly message: string;
}

/** An object that somebody else has deleted meanwhile is as good as deleted. */
export const GONE: ReadonlySet<string> = new Set(["NoSuchKey", "NoSuchVersion", "NoSuchUpload"]);

export function answerOf(error: unknown): S3Answer {
  if (!(error instanceof Error)) throw error;
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
  return { code: error.name, status: $metadata?.httpStatusCode ?? 0, message: error.message };
}

/** Why the driver can do without a call: the server lacks it, or a policy refuses it. */
export function whyUnavailable(error: unknown): Unavailable | undefined {
  const { code, status } = answerOf(error);
  const isLacking = status === 501 || status === 405;
  if (isLacking || code === "NotImplemented" || code === "MethodNotAllowed") return "unsupported";
  return code === "AccessDenied" ? "forbidden" : undefined;
}

/** `about`: the call, its subject and the server. */
export function failureFor(about: string, error: unknown): Failure {
  const { code, status, message } = answerOf(error);
  if (code === "AbortError") return new Failure("timeout", `${about}: not in time`, error);
  // An ingress without a route answers 404 too, for which the SDK makes up a code.
  if (status === 404 && !code.startsWith("NoSuch")) {
    const why = "HTTP 404 without an S3 error document: is this the S3 endpoint";
    return new Failure("remote", `${about}: ${why}, and does a proxy know the way to it?`, error);
  }
  const answer = status === 0 ? "" : `HTTP ${status} `;
  const text = `${about}: ${answer}${code} (${message})`;
  if (code === "NoSuchBucket") return new NoSuchBucketFailure(text, error);
  // A request without an answer may have been done: that is `remote`, not a verdict.
  return new Failure(status === 0 ? "remote" : kindOf(code, status), text, error);
}
