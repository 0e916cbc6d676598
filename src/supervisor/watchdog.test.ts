import assert from "node:assert/strict";
import { test } from "node:test";
import { watchOver } from "./watchdog.ts";

test("an engine is taken to hang after several questions without an answer, and not before", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let answers = true;
  let hangs = 0;
  const ask = (onAlive: () => void) => {
    if (answers) onAlive();
  };
  watchOver({ ask, ended: new Promise(() => {}) }, () => void (hangs += 1), 10);
  t.mock.timers.tick(1000);
  assert.equal(hangs, 0);
  answers = false;
  t.mock.timers.tick(30);
  answers = true; // late, and in time
  t.mock.timers.tick(20);
  answers = false;
  t.mock.timers.tick(40);
  assert.equal(hangs, 0);
  t.mock.timers.tick(10);
  assert.equal(hangs, 1);
});

test("who has ended is not asked any more", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const end = { code: 0, signal: null, orderly: true };
  const ended = Promise.resolve(end);
  watchOver({ ask: () => assert.fail("asked"), ended }, () => assert.fail("hangs"), 10);
  await ended;
  t.mock.timers.tick(1000);
});
