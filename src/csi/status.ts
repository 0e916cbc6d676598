import { Code, ConnectError } from "@connectrpc/connect";
import type { Interceptor } from "@connectrpc/connect";
import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import type { Log } from "../base/log.ts";

const CODE = {
  invalid: Code.InvalidArgument,
  absent: Code.NotFound,
  conflict: Code.AlreadyExists,
  denied: Code.PermissionDenied,
  refused: Code.FailedPrecondition,
  stale: Code.FailedPrecondition,
  busy: Code.Aborted, // the code that CSI reserves for "this operation is pending"
  timeout: Code.DeadlineExceeded,
  remote: Code.Unavailable,
} as const satisfies Record<FailureKind, Code>;

/** The only place where a Failure becomes a gRPC status. Anything else is a bug: Internal. */
export function failuresToStatus(log: Log): Interceptor {
  return (next) => async (request) => {
    const startedMs = performance.now();
    const method = request.method.name;
    try {
      const response = await next(request);
      log.debug({ method, ms: Math.round(performance.now() - startedMs) }, "call answered");
      return response;
    } catch (error) {
      const status = statusOf(error);
      const ms = Math.round(performance.now() - startedMs);
      const fields = { method, ms, code: Code[status.code], reason: status.rawMessage };
      if (status.code === Code.Internal) log.error({ ...fields, err: error }, "call failed");
      else log.warn(fields, "call failed");
      throw status;
    }
  };
}

function statusOf(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof Failure) {
    return new ConnectError(error.message, CODE[error.kind], undefined, undefined, error);
  }
  const message = "internal error: see the driver's log";
  return new ConnectError(message, Code.Internal, undefined, undefined, error);
}
