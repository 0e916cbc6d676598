import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { readControlMessage } from "./control-messages.ts";

const KEYS = { accessKeyId: "a", secretAccessKey: "s" };

const FDS = { fuseFd: 3, slotsFd: 4, journalFd: 5, spoolFd: 6 };
const START = { do: "start", ...FDS, resume: false, waits: false, mountedByUs: true } as const;

test("a start and a finish are read as they are", () => {
  const start = { ...START, credentials: KEYS };
  assert.deepEqual(readControlMessage(start), start);
  assert.deepEqual(readControlMessage({ ...start, credentials: null }).do, "start");
  assert.deepEqual(readControlMessage({ do: "finish" }), { do: "finish" });
  assert.deepEqual(readControlMessage({ do: "ask" }), { do: "ask" });
  assert.deepEqual(readControlMessage({ do: "serve" }), { do: "serve" });
});

test("anything else is refused by the name of its field, never with a secret", () => {
  const start = { ...START, credentials: KEYS };
  const cases: [input: unknown, names: RegExp][] = [
    [undefined, /the message/],
    ["start", /the message/],
    [{ do: "stop" }, /do must be/],
    [{ ...start, slotsFd: -1 }, /slotsFd/],
    [{ ...start, slotsFd: "4" }, /slotsFd/],
    [START, /credentials/],
    [{ ...start, spoolFd: undefined }, /spoolFd/],
    [{ ...start, resume: 1 }, /resume/],
    [{ ...start, credentials: { ...KEYS, accessKeyId: "" } }, /accessKeyId/],
    [{ ...start, credentials: { ...KEYS, secretAccessKey: 5 } }, /secretAccessKey/],
    [{ ...start, credentials: { ...KEYS, sessionToken: "" } }, /sessionToken/],
  ];
  for (const [input, names] of cases) {
    assert.throws(
      () => readControlMessage(input),
      (error) => error instanceof Failure && error.kind === "invalid" && names.test(error.message),
    );
  }
});
