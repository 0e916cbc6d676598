import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyedLock } from "./keyed-lock.ts";

test("a key has one holder; the second is sent away, another key is free", () => {
  const locks = new KeyedLock();
  {
    using _held = locks.hold("a");
    assert.throws(() => locks.hold("a"), {
      kind: "busy",
      message: /an operation on a is under way/,
    });
    using _other = locks.hold("b");
  }
  using _again = locks.hold("a");
});

test("who was sent away does not free the key of the holder", () => {
  const locks = new KeyedLock();
  using _held = locks.hold("a");
  assert.throws(() => locks.hold("a"), { kind: "busy" });
  assert.throws(() => locks.hold("a"), { kind: "busy" });
});
