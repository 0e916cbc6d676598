import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { engineEnvironment } from "./engine-process.ts";
import { TcpGate } from "./tcp-gate.ts";
import { TestBucket } from "./test-bucket.ts";

const SUPERVISOR = join(import.meta.dirname, "given-up.ts");
const LIMIT_MS = 20_000;

/** The kernel tells nobody when a process begins to wait for an answer. */
async function untilWaitingForFuse({ pid }: ChildProcess): Promise<void> {
  const endMs = performance.now() + LIMIT_MS;
  while (!/request_wait_answer|fuse/.test(readFileSync(`/proc/${pid}/wchan`, "utf8"))) {
    assert(performance.now() < endMs, "it never waits");
    await delay(5);
  }
}

test("without an engine that comes back, killed applications are released", async () => {
  await using owned = new AsyncDisposableStack();
  const bucket = owned.use(await TestBucket.start());
  const gate = owned.use(await TcpGate.start(bucket.access.endpoint));
  const local = owned.use(await temporaryDirectory()).path;
  await bucket.put("file", Buffer.alloc(1 << 20));
  const dir = join(local, "mnt");
  await mkdir(dir);
  const env = {
    ...engineEnvironment(bucket),
    AWS_ENDPOINT_URL: gate.url,
    NO_ENGINE: join(local, "no-engine"),
  };
  const start = (command: readonly string[]) =>
    spawn("setpriv", ["--pdeathsig", "KILL", "--", ...command], {
      env,
      stdio: ["pipe", "pipe", "inherit"],
    });
  const supervisor = start([process.execPath, SUPERVISOR, "mount", bucket.name, dir]);
  owned.defer(() => void supervisor.kill("SIGKILL"));
  const lines: string[] = [];
  const log = createInterface({ input: supervisor.stdout }).on("line", (line) => lines.push(line));
  const ended = once(supervisor, "exit");
  while (!lines.some((line) => line.includes('"msg":"mounted"'))) await once(log, "line");

  const writer = start(["sh", "-c", 'exec 3>"$0"; echo begun; cat >&3', join(dir, "new")]);
  await once(writer.stdout, "data"); // it has the file open
  await gate.shut();
  writer.stdin.end("more");
  const reader = start(["cat", join(dir, "file")]);
  const applications = [reader, writer];
  await untilWaitingForFuse(reader);
  await writeFile(env.NO_ENGINE, "");
  await new EngineKiller(supervisor).kill();
  const gone = applications.map((application) => once(application, "exit"));
  for (const application of applications) application.kill("SIGKILL");
  const late = delay(LIMIT_MS, "late", { ref: false });
  assert.notEqual(await Promise.race([Promise.all(gone), late]), "late", "they hang");
  assert.deepEqual(await ended, [1, null]);
  const last = lines.find((line) => line.includes("the mount is given up")) ?? "";
  assert.match(last, /"cause":"SIGKILL"/);
  assert.match(last, /exit status 9/);
});
