import assert from "node:assert/strict";
import { test } from "node:test";
import { within } from "./within.ts";

const late = (reason: unknown) => new Error("late", { cause: reason });

test("work that ends in time gives its own result or error", async () => {
  const { signal } = new AbortController();
  assert.equal(await within(Promise.resolve(1), signal, late), 1);
  await assert.rejects(within(Promise.reject(new Error("own")), signal, late), /own/);
});

test("the deadline gives its error; the work's later failure is nobody's surprise", async () => {
  const stop = new AbortController();
  const work = Promise.withResolvers<number>();
  const waiting = within(work.promise, stop.signal, late);
  stop.abort("over");
  await assert.rejects(waiting, { message: "late", cause: "over" });
  work.reject(new Error("unhandled, if nobody listened")); // the test runner would report it
});

test("a deadline that has passed before counts", async () => {
  const never = new Promise(() => {});
  await assert.rejects(within(never, AbortSignal.abort(), late), /late/);
});
