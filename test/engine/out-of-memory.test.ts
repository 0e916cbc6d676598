import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { limitMemory } from "./memory-limit.ts";

const LIMIT_MIB = 300;

test("an engine that the kernel kills for memory is replaced, and the log says why", async () => {
  await using limit = await limitMemory(LIMIT_MIB);
  const env = { ...process.env, NODE_OPTIONS: limit.nodeOption };
  const program = join(import.meta.dirname, "out-of-memory.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env });
  const lines = stdout.split("\n").filter((line) => line.includes('"engine recovered"'));
  assert.equal(lines.length, 1, stdout);
  assert.match(lines[0] ?? "", /"cause":"out of memory"/);
});
