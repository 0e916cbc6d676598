import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import {
  HandoverAnswer,
  HandoverRequest,
  LineBuffer,
  MESSAGE_BYTES_MAX,
  decodeLine,
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

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  const starts = [0, ...ends];
  return starts.map((start, index) => bytes.subarray(start, starts[index + 1]));
}

test("lines arrive whole, however the stream is cut", () => {
  const line = fc.string({ unit: "grapheme", maxLength: 50 }).map((s) => s.replaceAll("\n", ""));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat({ max: 5000 })), (lines, cuts) => {
      const stream = Buffer.from(lines.map((one) => `${one}\n`).join(""));
      const buffer = new LineBuffer();
      const got = chunksOf(stream, cuts).flatMap((chunk) => [...buffer.add(chunk)]);
      assert.deepEqual(got, lines);
    }),
    { examples: [[["ü€😀"], [1, 3, 4, 6, 8]]] },
  );
});

test("a line that is too long is refused, with or without an end", () => {
  const long = "x".repeat(MESSAGE_BYTES_MAX);
  assert.deepEqual([...new LineBuffer().add(Buffer.from(`${long}\n`))], [long]);
  for (const text of [`${long}x`, `${long}x\n`, `${long}x\n{}\n`]) {
    assert.throws(() => [...new LineBuffer().add(Buffer.from(text))], { kind: "invalid" });
  }
  const buffer = new LineBuffer();
  assert.deepEqual([...buffer.add(Buffer.from(long))], []);
  assert.throws(() => [...buffer.add(Buffer.from("xx"))], /more than 65536 bytes/);
});

test("what is encoded is decoded to the same", () => {
  const foreign = { ...MOUNT, engine: "mount-s3" } as const;
  const unsigned = { ...MOUNT, credentials: null };
  for (const request of [MOUNT, foreign, unsigned, { do: "finish" }] as const) {
    assert.deepEqual(decodeLine(HandoverRequest, encodeLine(request).toString()), request);
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
      () => decodeLine(HandoverRequest, JSON.stringify(value)),
      (error) => error instanceof Failure && !String(error.stack).includes("hidden"),
    );
  });
}

test("a line that is not JSON is not quoted either, nor is its cause", () => {
  const line = '{"do":"mount","credentials":{"secretAccessKey":hidden';
  assert.throws(
    () => decodeLine(HandoverRequest, line),
    (error) => error instanceof Failure && error.cause === undefined,
  );
});

test("a failure keeps kind and words; words that are too many are cut", () => {
  const answer = failedAnswer(new Failure("absent", "no such bucket"));
  assert.deepEqual(answer, { did: "failed", kind: "absent", message: "no such bucket" });
  const long = failedAnswer(new Failure("remote", "x".repeat(10_000)));
  assert.deepEqual(decodeLine(HandoverAnswer, encodeLine(long).toString()), long);
});
