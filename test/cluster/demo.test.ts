import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../../tools/run.ts";

test("make demo tells its story to the end", async () => {
  const told = await run(process.execPath, [join(import.meta.dirname, "../../tools/demo.ts")]);
  assert.match(told, /ms {2}bound into the workload's directory/);
  assert.match(told, /GET letters\/answer.txt -> Hello from a pod\./);
  assert.match(told, /killed [1-9]\d* times; the pod saw no error, and every byte is right/);
  assert.match(told, /mounts left on the node: 0/);
  assert.match(told, /nothing is left on this machine/);
});
