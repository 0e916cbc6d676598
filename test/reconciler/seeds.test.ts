import { test } from "node:test";
import { simulate } from "../sim/simulate.ts";

const RUNS = 5_000;

// The long form of test/sim, too long for every check.
for (const replicas of [1, 2]) {
  test(`${RUNS} lives of a cluster with ${replicas} reconciler(s) end as they should`, async () => {
    await simulate(replicas, RUNS);
  });
}
