import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

/** What the runner prints for a directory whose only test file is this one. */
async function resultOf(source: string): Promise<{ code: number; printed: string }> {
  const dir = await mkdtemp(join(tmpdir(), "s3csi-runner-"));
  try {
    await mkdir(join(dir, "test"));
    const file = `import { test } from "node:test";\n${source}\n`;
    await writeFile(join(dir, "test/one.test.ts"), file);
    const { NODE_TEST_CONTEXT: _, ...env } = process.env; // else it takes itself for a test
    const runner = join(import.meta.dirname, "test.ts");
    const child = spawn(process.execPath, [runner, "pure"], { cwd: dir, env });
    const ended = once(child, "close");
    const printed = await text(child.stdout);
    const [code] = (await ended) as [number];
    return { code, printed };
  } finally {
    await rm(dir, { recursive: true });
  }
}

const cases: [what: string, source: string, code: number, says: RegExp][] = [
  ["passes", `test("a", () => {});`, 0, /^1 passed, 0 failed$/m],
  ["skips one", `test("a", () => {}); test.skip("b");`, 0, /^1 passed, 0 failed, 1 skipped$/m],
  [
    "fails",
    `test("a", () => { console.log("hint"); throw new Error("why"); });`,
    1,
    /hint\n.*why/s,
  ],
  [
    "fails for a reason behind the error",
    `test("a", () => { throw new Error("what", { cause: new Error("why") }); });`,
    1,
    /what\n.*caused by: Error: why\n/s,
  ],
  [
    "is killed",
    `test("a", () => process.kill(process.pid, "SIGKILL"));`,
    1,
    /^0 passed, 1 failed$/m,
  ],
  ["exits early", `test("a", () => process.exit(0));`, 1, /^0 passed, 1 failed$/m],
  ["can't be loaded", `import "./nowhere.ts";`, 1, /ERR_MODULE_NOT_FOUND.*0 passed, 1 failed$/ms],
  ["has no test", ``, 1, /^0 passed, 1 failed$/m],
  [
    "throws after its last test",
    `test("a", () => {}); setTimeout(() => { throw new Error("late"); }, 1);`,
    1,
    /late.*1 passed, 1 failed$/ms,
  ],
];
for (const [what, source, code, says] of cases) {
  test(`a file that ${what} makes the runner end with ${code}`, async () => {
    const result = await resultOf(source);
    assert.match(result.printed, says);
    assert.equal(result.code, code);
  });
}
