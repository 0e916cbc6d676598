import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Failure } from "../base/failure.ts";
import { AwayFailure, retry, StaleConnectionFailure } from "./retry.ts";
import type { RetryBudget, RetryPolicy } from "./retry.ts";

const { signal } = new AbortController();
const POLICY = { attemptsMax: 4, windowMs: 60_000 };

/** Retries without waiting; tells how it ended, and how long it would have waited. */
async function tried(policy: RetryPolicy, attempt: (budget: RetryBudget) => Promise<void>) {
  let pausedMs = 0;
  const pause = async (pauseMs: number) => void (pausedMs += pauseMs);
  const error = await retry(policy, signal, attempt, pause).catch((thrown: unknown) => thrown);
  return { error, pausedMs };
}

test("the time of an attempt that the endpoint answered is not charged to the budget", async () => {
  const now = mock.method(performance, "now", () => 0);
  let attempts = 0;
  const { error } = await tried(POLICY, async () => {
    attempts += 1;
    now.mock.mockImplementation(() => attempts * 61_000); // a slow transfer, or a long queue
    if (attempts < 3) throw new AwayFailure("503");
  });
  now.mock.restore();
  assert.equal(error, undefined);
  assert.equal(attempts, 3);
});

test("an endpoint that is away is given up when pauses and silence reach the limit", async () => {
  const silent = new AwayFailure("silent", undefined, 20_000);
  let attempts = 0;
  const { error } = await tried(POLICY, async () => {
    attempts += 1;
    throw silent;
  });
  assert.equal(error, silent);
  assert.equal(attempts, 3, "3 × 20 s");
  const refused = await tried(POLICY, () => Promise.reject(new AwayFailure("refused")));
  assert(refused.pausedMs > 57_000 && refused.pausedMs <= 63_000, `${refused.pausedMs} ms`);
});

test("one failure alone never exhausts the budget, however long it took", async () => {
  let attempts = 0;
  const { error } = await tried({ attemptsMax: 4, windowMs: 1000 }, async () => {
    attempts += 1;
    if (attempts === 1) throw new AwayFailure("reset in a slow upload", undefined, 20_000);
  });
  assert.equal(error, undefined);
});

test("progress starts a new budget of time, not of attempts", async () => {
  let attempts = 0;
  const { error } = await tried(POLICY, async (budget) => {
    attempts += 1;
    if (attempts === 10) return;
    budget.renew();
    throw new AwayFailure("silent", undefined, 20_000);
  });
  assert.equal(error, undefined);
  attempts = 0;
  const faulty = await tried(POLICY, async (budget) => {
    attempts += 1;
    budget.renew();
    throw new Failure("remote", "500");
  });
  assert(faulty.error instanceof Failure);
  assert.equal(attempts, 4);
});

test("a stale connection costs no pause and no attempt, unless the next one is stale too", async () => {
  const failures = [new StaleConnectionFailure("closed"), new Failure("remote", "500")];
  const once = await tried(POLICY, async () => {
    const failure = failures.shift();
    if (failure instanceof StaleConnectionFailure) throw failure;
  });
  assert.deepEqual(once, { error: undefined, pausedMs: 0 });
  const always = await tried(POLICY, () => Promise.reject(new StaleConnectionFailure("closed")));
  assert(always.error instanceof StaleConnectionFailure);
  assert(always.pausedMs > 57_000, `${always.pausedMs} ms`);
});

test("a time limit that expires in a pause is what the operation fails with", async () => {
  const limit = new AbortController();
  const expired = new DOMException("the operation timed out", "TimeoutError");
  const tries = retry(POLICY, limit.signal, () => {
    setImmediate(() => limit.abort(expired)); // by then the pause has begun
    return Promise.reject(new AwayFailure("refused"));
  });
  assert.equal(await tries.catch((thrown: unknown) => thrown), expired);
});
