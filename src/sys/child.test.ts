import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Child } from "./child.ts";
import { SystemError } from "./libc.ts";

const SHELL = "/bin/sh";

function run(script: string, given: { env?: Record<string, string>; fds?: number[] } = {}): Child {
  const { env = {}, fds = [] } = given;
  return new Child({ path: SHELL, argv: ["sh", "-c", script], env, fds });
}

test("how it ended is told: a status, or a signal", async () => {
  assert.deepEqual(await run("exit 0").untilEnd(), { code: 0, signal: null });
  assert.deepEqual(await run("exit 255").untilEnd(), { code: 255, signal: null });
  assert.deepEqual(await run("kill -TERM $$").untilEnd(), { code: null, signal: "SIGTERM" });
});

test("it is killed, and is nobody's business afterwards", async () => {
  const child = run("while :; do :; done");
  const end = child.untilEnd();
  child.kill();
  assert.deepEqual(await end, { code: null, signal: "SIGKILL" });
  assert.throws(() => process.kill(child.pid, 0), { code: "ESRCH" });
  child.kill(); // of no effect: the number may be another's
});

test("it inherits what it is given under the same number, and has nothing to read", async () => {
  const directory = mkdtempSync(join(tmpdir(), "s3csi-child-"));
  const path = join(directory, "said");
  const [given, kept] = [openSync(path, "a"), openSync(join(directory, "kept"), "a")];
  try {
    const script =
      `exec >>/proc/self/fd/${given} || exit 1; read line; echo "$? $WORD"; ` +
      `[ -e /proc/self/fd/${kept} ] && echo "it has ours"; exit 7`;
    const child = run(script, { env: { WORD: "größer = 1" }, fds: [given] });
    assert.deepEqual(await child.untilEnd(), { code: 7, signal: null });
    assert.equal(readFileSync(path, "utf8"), "1 größer = 1\n");
  } finally {
    closeSync(given);
    closeSync(kept);
    rmSync(directory, { recursive: true });
  }
});

test("a program that is not there is an error, by its path", () => {
  assert.throws(
    () => new Child({ path: "/no/such", argv: ["such"], env: {}, fds: [] }),
    (error) => error instanceof SystemError && error.message === "posix_spawn /no/such: ENOENT",
  );
});
