import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";

const LASTING: ReadonlySet<FailureKind> = new Set(["invalid", "denied", "refused"]);

/** The API server refuses a write, and will again until somebody corrects something. */
export function isLasting(error: unknown): error is Failure {
  return error instanceof Failure && LASTING.has(error.kind);
}
