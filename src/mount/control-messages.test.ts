import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { readControlMessage } from "./control-messages.ts";

const KEYS = { accessKeyId: "a", secretAccessKey: "s", sessionToken: undefined };

test("a start and a finish are read as they are", () => {
  const start = { do: "start", slotsFd: 4, credentials: KEYS } as const;
  assert.deepEqual(readControlMessage(start), start);
  assert.deepEqual(readControlMessage({ ...start, credentials: null }).do, "start");
  assert.deepEqual(readControlMessage({ do: "finish" }), { do: "finish" });
});

test("anything else is refused by the name of its field, never with a secret", () => {
  const start = { do: "start", slotsFd: 4, credentials: KEYS };
  const cases: [input: unknown, names: RegExp][] = [
    [undefined, /the message/],
    ["start", /the message/],
    [{ do: "stop" }, /do must be/],
    [{ ...start, slotsFd: -1 }, /slotsFd/],
    [{ ...start, slotsFd: "4" }, /slotsFd/],
    [{ do: "start", slotsFd: 4 }, /credentials/],
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
