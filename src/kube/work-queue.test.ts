import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { LATER, WorkQueue } from "./work-queue.ts";
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

test("steps between two failures do not make the back-off begin anew", async (t) => {
  const done = Promise.withResolvers<void>();
  const log = createLog("error", {});
  const warned = t.mock.method(log, "warn", () => undefined);
  let turns = 0;
  const { queue, stop, running } = queueOf({
    log,
    async work() {
      turns += 1;
      if (turns % 2 === 1) return { stepAfterMs: 0 };
      if (turns < 8) throw new Failure("remote", "the last step fails");
      done.resolve();
      return undefined;
    },
  });
  queue.add("a");
  await done.promise;
  const attempts = warned.mock.calls.map(({ arguments: [facts] }) => facts as { attempt: number });
  assert.deepEqual(
    attempts.map(({ attempt }) => attempt),
    [0, 1, 2],
  );
  stop.abort();
  await running;
});

/** Keys whose work is ended by hand; all but `u…` is put off until it is calm. */
function patientQueue() {
  const calmly: string[] = [];
  let urgent = 0;
  const ends: (() => void)[] = [];
  const made = queueOf({
    concurrency: 4,
    async work(key, _signal, calm) {
      if (calm) calmly.push(key);
      if (!calm && !key.startsWith("u")) return LATER;
      if (!calm) urgent += 1;
      await new Promise<void>((resolve) => ends.push(resolve));
      return undefined;
    },
  });
  const endFirst = async () => {
    ends.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { ...made, calmly, endFirst, urgent: () => urgent };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("what can wait is done at once when there is nothing else, one by one", async () => {
  const { queue, calmly, endFirst, stop, running } = patientQueue();
  for (const key of ["a", "b", "c"]) queue.add(key);
  await turn();
  assert.deepEqual(calmly, ["a"]);
  await endFirst();
  assert.deepEqual(calmly, ["a", "b"]);
  stop.abort();
  await endFirst();
  await running;
  assert.deepEqual(calmly, ["a", "b"], "nothing new after the end");
});

test("what can wait lets others pass, until its patience ends", async (t) => {
  const { queue, calmly, endFirst, urgent, stop, running } = patientQueue();
  let nowMs = 1_000;
  t.mock.method(performance, "now", () => nowMs);
  for (const key of ["u1", "u2", "a", "b", "u3", "u4"]) queue.add(key);
  await turn();
  assert.equal(urgent(), 4);
  await endFirst();
  assert.deepEqual(calmly, [], "three are still at work");
  nowMs += 60_000;
  for (const key of ["u5", "u6"]) queue.add(key);
  assert.deepEqual(calmly, ["a"]);
  assert.equal(urgent(), 4, "who came later waits for it");
  await endFirst();
  assert.deepEqual(calmly, ["a"], "one at a time");
  assert.equal(urgent(), 5);
  stop.abort();
  for (let i = 0; i < 8; i += 1) await endFirst();
  await running;
});

test("a change of what waits is looked at like any other", async () => {
  const { queue, calmly, endFirst, stop, running } = patientQueue();
  for (const key of ["u1", "a"]) queue.add(key);
  await turn();
  queue.add("a");
  await turn();
  assert.deepEqual(calmly, [], "one is still at work");
  await endFirst();
  assert.deepEqual(calmly, ["a"], "once");
  stop.abort();
  await endFirst();
  await running;
});
