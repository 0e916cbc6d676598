import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const PROGRAM = join(import.meta.dirname, "../main.ts");

test("a controller with a default memory limit that is too small does not start", () => {
  const resources = '{"limits":{"memory":"64Mi"}}';
  const flags = ["--mountpoint-resources", resources, "--reconcile=false", "--provision=false"];
  const { status, stderr } = spawnSync(process.execPath, [PROGRAM, "controller", ...flags], {
    encoding: "utf8",
    timeout: 30_000,
  });
  assert.equal(status, 2);
  assert.match(stderr, /limits\.memory is "64Mi": the engine s3csi needs at least 96Mi/);
});
