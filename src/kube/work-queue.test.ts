import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { WorkQueue } from "./work-queue.ts";
import type { WorkQueueOptions } from "./work-queue.ts";

/** A queue whose work is ended by hand. */
function queueOf(options: Partial<WorkQueueOptions> = {}) {
  const stop = new AbortController();
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<number | undefined>>();
  const queue = new WorkQueue({
    concurrency: 2,
    backOff: { firstMs: 1, maxMs: 4 },
    log: createLog("error", {}),
    async work(key) {
      begun.push(key);
      const end = Promise.withResolvers<number | undefined>();
      ends.set(key, end);
      return end.promise;
    },
    ...options,
  });
  const running = queue.start(stop.signal);
  const end = async (key: string, error?: Error) => {
    if (error === undefined) ends.get(key)?.resolve(undefined);
    else ends.get(key)?.reject(error);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { queue, begun, end, stop, running };
}

test("a key waits once, and is worked on by one at a time", async () => {
  const { queue, begun, end, stop, running } = queueOf();
  for (const key of ["a", "a", "a"]) queue.add(key);
  assert.deepEqual(begun, ["a"]);
  await end("a");
  assert.deepEqual(begun, ["a", "a"], "added under work: once more");
  await end("a");
  assert.deepEqual(begun, ["a", "a"]);
  stop.abort();
  await running;
});

test("keys are worked on at once up to the limit, in their order", async () => {
  const { queue, begun, end, stop, running } = queueOf();
  for (const key of ["a", "b", "c", "d"]) queue.add(key);
  assert.deepEqual(begun, ["a", "b"]);
  await end("b");
  assert.deepEqual(begun, ["a", "b", "c"]);
  stop.abort();
  for (const key of ["a", "c"]) await end(key);
  await running;
  assert.deepEqual(begun, ["a", "b", "c"], "nothing new after the end");
});

test("a key that fails is tried again, and one that asks for it", async () => {
  const done = Promise.withResolvers<void>();
  let tries = 0;
  const { queue, stop, running } = queueOf({
    async work() {
      tries += 1;
      if (tries < 3) throw new Failure("stale", "again");
      if (tries === 3) return 1;
      done.resolve();
      return undefined;
    },
  });
  queue.add("a");
  await done.promise;
  assert.equal(tries, 4);
  stop.abort();
  await running;
});
