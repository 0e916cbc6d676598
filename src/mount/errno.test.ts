import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { failureOf } from "../s3/s3-error.ts";
import { errnoOf } from "./errno.ts";

// prettier-ignore
const answers: [status: number, code: string, errno: keyof typeof constants.errno][] = [
  [400, "KeyTooLongError", "ENAMETOOLONG"], // AWS
  [400, "KeyTooLong",      "ENAMETOOLONG"], // Scality
  [400, "InvalidArgument", "EINVAL"],
  [400, "InvalidInput",    "EINVAL"],
  [400, "InvalidRequest",  "EIO"],
  [403, "AccessDenied",    "EACCES"],
  [404, "NoSuchKey",       "ENOENT"],
];
for (const [status, code, errno] of answers) {
  test(`${status} ${code} is ${errno}`, () => {
    const body = Buffer.from(`<Error><Code>${code}</Code></Error>`);
    const answer = { status, headers: new Map<string, string>(), body };
    assert.equal(errnoOf(failureOf("PUT s3://b/k", answer)), constants.errno[errno]);
  });
}
