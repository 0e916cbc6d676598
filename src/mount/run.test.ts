import assert from "node:assert/strict";
import { test } from "node:test";
import { runWithOptions } from "./run.ts";

const ARGS = ["bucket", "/mnt", "--log-directory", "/dev/null/logs"];

test("an engine whose log file can't be opened serves all the same", async () => {
  assert.equal(await runWithOptions("engine", ARGS, {}, async () => 0), 0);
});

test("a mount whose log file can't be opened does not start", async () => {
  await assert.rejects(
    runWithOptions("mount", ARGS, {}, async () => 0),
    { code: "ENOTDIR" },
  );
});
