import { test } from "node:test";
import { simulate } from "./simulate.ts";

const RUNS = 500;

for (const replicas of [1, 2]) {
  test(`whatever happens to ${replicas} reconciler(s), the cluster ends as it should`, async () => {
    await simulate(replicas, RUNS);
  });
}
