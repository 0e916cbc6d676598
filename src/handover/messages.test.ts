import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import {
  MESSAGE_BYTES_MAX,
  decodeMounterLine,
  decodeRequest,
  encodeLine,
  failedAnswer,
} from "./messages.ts";
import type { MountRequest } from "./messages.ts";

const MOUNT: MountRequest = {
  do: "mount",
  resume: false,
  bucket: "bucket-1",
  args: ["--allow-delete"],
  env: { AWS_MAX_ATTEMPTS: "3" },
  credentials: { accessKeyId: "id", secretAccessKey: "key", sessionToken: "token" },
};

test("what is encoded is decoded to the same", () => {
  const foreign = { ...MOUNT, engine: "mount-s3" } as const;
  const unsigned = { ...MOUNT, credentials: null };
  for (const request of [MOUNT, foreign, unsigned, { do: "finish" }] as const) {
    assert.deepEqual(decodeRequest(encodeLine(request).toString()), request);
  }
});

test("a message that does not fit is refused before it is sent", () => {
  const args = ["x".repeat(MESSAGE_BYTES_MAX)];
  assert.throws(() => encodeLine({ ...MOUNT, args }), { kind: "invalid" });
});

// prettier-ignore
const wrong: [name: string, value: unknown][] = [
  ["nothing", null],
  ["a word", "mount"],
  ["an unknown verb", { do: "format" }],
  ["a field too many", { ...MOUNT, extra: 1 }],
  ["a bucket that is none", { ...MOUNT, bucket: "" }],
  ["an engine that is none", { ...MOUNT, engine: "s3fs" }],
  ["an argument with a NUL", { ...MOUNT, args: ["a\0b"] }],
  ["a variable that steers Node", { ...MOUNT, env: { NODE_OPTIONS: "--require=/comm/evil.js" } }],
  ["a variable that steers the loader", { ...MOUNT, env: { LD_PRELOAD: "/comm/evil.so" } }],
  ["half of the keys", { ...MOUNT, credentials: { accessKeyId: "hidden-id" } }],
  ["empty keys", { ...MOUNT, credentials: { accessKeyId: "", secretAccessKey: "hidden-key" } }],
];
for (const [name, value] of wrong) {
  test(`${name} is no request, and no key is quoted`, () => {
    assert.throws(
      () => decodeRequest(JSON.stringify(value)),
      (error) => error instanceof Failure && !String(error.stack).includes("hidden"),
    );
  });
}

test("a line that is not JSON is not quoted either, nor is its cause", () => {
  const line = '{"do":"mount","credentials":{"secretAccessKey":hidden';
  assert.throws(
    () => decodeRequest(line),
    (error) => error instanceof Failure && error.cause === undefined,
  );
});

test("a failure keeps kind and words; words that are too many are cut", () => {
  const answer = failedAnswer(new Failure("absent", "no such bucket"));
  assert.deepEqual(answer, { did: "failed", kind: "absent", message: "no such bucket" });
  const long = failedAnswer(new Failure("remote", "x".repeat(10_000)));
  assert.deepEqual(decodeMounterLine(encodeLine(long).toString()), long);
});
