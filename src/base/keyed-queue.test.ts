import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyedQueue } from "./keyed-queue.ts";

test("work of one key runs in its order, also after a failure; other keys do not wait", async () => {
  const queue = new KeyedQueue();
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = queue.run("a", async () => {
    await gate.promise;
    order.push("first");
    throw new Error("first failed");
  });
  const second = queue.run("a", async () => order.push("second"));
  await queue.run("b", async () => order.push("other"));
  assert.deepEqual([queue.isBusy("a"), queue.isBusy("b")], [true, false]);
  gate.resolve();
  await assert.rejects(first, /first failed/);
  await second;
  assert.deepEqual(order, ["other", "first", "second"]);
  assert.equal(queue.isBusy("a"), false);
});
