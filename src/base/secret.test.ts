import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Secret } from "./secret.ts";

test("a secret shows itself only when asked to", () => {
  const secret = new Secret("hunter2");
  const prints = [String(secret), JSON.stringify({ secret }), inspect({ secret })];
  for (const print of prints) assert(!print.includes("hunter2"), print);
  assert.equal(secret.reveal(), "hunter2");
});
