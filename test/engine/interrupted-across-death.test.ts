import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { mountBucket } from "./engine-process.ts";
import { MODES } from "./resume-modes.ts";
import { TestBucket } from "./test-bucket.ts";

/** The engine has the INTERRUPT by then, and its grace of 2 s is not over. */
const INTERRUPTED_MS = 500;
/** An engine that starts, the whole grace once more, and a busy machine. */
const KILLED_WITHIN_MS = 12_000;

/** The kernel tells nobody that a process waits for the answer of a file system. */
async function untilWaiting(pid: number): Promise<void> {
  const signal = AbortSignal.timeout(20_000);
  const waits = () => readFileSync(`/proc/${pid}/wchan`, "utf8") === "request_wait_answer";
  for (let seen = 0; seen < 5; seen = waits() ? seen + 1 : 0) {
    await delay(100, undefined, { signal });
  }
}

for (const [mode, words] of Object.entries(MODES)) {
  test(`programs that were killed end although the engine dies before it cuts off their calls, ${mode}`, async () => {
    await using bucket = await TestBucket.start();
    await bucket.put("one/doomed", "x");
    await bucket.put("two/marker/", "");
    const args = ["--allow-delete", "--metadata-ttl", "3600", "--part-size=5242880", ...words];
    await using mount = await mountBucket(bucket, [...args, "--memory-target=64"]);
    const at = (name: string) => join(mount.dir, name);
    await Promise.all([fs.stat(at("one/doomed")), fs.stat(at("two/marker"))]);
    await using file = await fs.open(at("written"), "w");
    using owned = new DisposableStack();
    process.kill(bucket.server.service.pid, "SIGSTOP");
    owned.defer(() => process.kill(bucket.server.service.pid, "SIGCONT"));
    const programs = [
      spawn("rm", [at("one/doomed")], { stdio: "ignore" }),
      spawn("rmdir", [at("two/marker")], { stdio: "ignore" }),
      spawn("dd", ["if=/dev/zero", "bs=1M", "count=200"], { stdio: ["ignore", file.fd, "ignore"] }),
    ];
    const exits = Promise.all(programs.map((program) => once(program, "exit")));
    for (const { pid = 0 } of programs) await untilWaiting(pid);
    for (const program of programs) program.kill("SIGKILL");
    await delay(INTERRUPTED_MS);
    process.kill(mount.engine.servingPid ?? 0, "SIGKILL");
    const late = delay(KILLED_WITHIN_MS, undefined, { ref: false });
    const killed = await Promise.race([exits, late]);
    owned.dispose();
    assert.deepEqual(
      killed,
      programs.map(() => [null, "SIGKILL"]),
    );
    await assert.rejects(file.sync(), { code: "EIO" }, "the last write was cut off");
    await file.close().catch(() => undefined);
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });
}
