import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";

const START_LIMIT_MS = 8000;

test("two API servers run at once; the controller manager works in each", async () => {
  const startedMs = performance.now();
  await using one = await startApiServer();
  const tookMs = performance.now() - startedMs;
  await using two = await startApiServer();
  assert.notEqual(one.url, two.url);
  const kubectl = join(await programs("kubernetes"), "kubectl");
  for (const { kubeconfig } of [one, two]) {
    // Only the controller manager makes service accounts.
    const wait = ["wait", "--for=create", "serviceaccount/default", "--timeout=60s"];
    await run(kubectl, [`--kubeconfig=${kubeconfig}`, ...wait]);
  }
  assert(tookMs < START_LIMIT_MS, `/readyz after ${tookMs} ms`);
});
