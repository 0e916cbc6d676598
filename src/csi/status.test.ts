import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { createClient } from "@connectrpc/connect";
import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { Identity } from "./gen/csi_pb.ts";
import { failuresToStatus } from "./status.ts";

const log = createLog("error", {});
log.level = "silent";

/** What a client sees of an error that a method throws. */
async function seenOf(error: unknown): Promise<ConnectError> {
  const throws = () => {
    throw error;
  };
  const transport = createRouterTransport((router) => router.service(Identity, { probe: throws }), {
    router: { interceptors: [failuresToStatus(log)] },
  });
  const answer = createClient(Identity, transport).probe({});
  return answer.then(
    () => assert.fail("no error came"),
    (seen: unknown) => ConnectError.from(seen),
  );
}

// prettier-ignore
const table: Record<FailureKind, Code> = {
  invalid: Code.InvalidArgument, absent: Code.NotFound, conflict: Code.AlreadyExists,
  denied: Code.PermissionDenied, refused: Code.FailedPrecondition, stale: Code.FailedPrecondition,
  busy: Code.Aborted, timeout: Code.DeadlineExceeded, remote: Code.Unavailable,
};
for (const [kind, code] of Object.entries(table)) {
  test(`${kind} is ${Code[code]}, with its words`, async () => {
    const seen = await seenOf(new Failure(kind as FailureKind, "the words"));
    assert.deepEqual([seen.code, seen.rawMessage], [code, "the words"]);
  });
}

test("a bug is Internal, and its words stay in the log", async () => {
  const seen = await seenOf(new TypeError("secretAccessKey of undefined"));
  assert.equal(seen.code, Code.Internal);
  assert.equal(seen.rawMessage, "internal error: see the driver's log");
});

test("a status of the library's own passes", async () => {
  const seen = await seenOf(new ConnectError("not here", Code.Unimplemented));
  assert.deepEqual([seen.code, seen.rawMessage], [Code.Unimplemented, "not here"]);
});
