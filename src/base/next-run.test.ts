import assert from "node:assert/strict";
import { test } from "node:test";
import { NextRun } from "./next-run.ts";

/** Work whose runs end when the test says so. */
function manual() {
  const runs: PromiseWithResolvers<string>[] = [];
  const nextRun = new NextRun<string>(() => {
    const run = Promise.withResolvers<string>();
    runs.push(run);
    return run.promise;
  });
  return { runs, nextRun };
}

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve));

test("callers that come during a run share the next one, which sees what happened before", async () => {
  const { runs, nextRun } = manual();
  const first = nextRun.result();
  await turn();
  const others = [nextRun.result(), nextRun.result()];
  await turn();
  assert.equal(runs.length, 1);
  runs[0]?.resolve("first");
  assert.equal(await first, "first");
  await turn();
  assert.equal(runs.length, 2);
  runs[1]?.resolve("second");
  assert.deepEqual(await Promise.all(others), ["second", "second"]);
});

test("a run that fails is the failure of its callers alone", async () => {
  const { runs, nextRun } = manual();
  const first = nextRun.result();
  const failed = assert.rejects(first, /broken/);
  await turn();
  const second = nextRun.result();
  runs[0]?.reject(new Error("broken"));
  await failed;
  await turn();
  runs[1]?.resolve("second");
  assert.equal(await second, "second");
});
