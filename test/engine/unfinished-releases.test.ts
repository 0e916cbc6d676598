import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import { promisify } from "node:util";
import { FaultProxy } from "./fault-proxy.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const EMPTY_FILES = 100;
const WRITERS = 500;
const OTHER_BYTES = 4 << 20;
/** Far more than a read takes; where all reads stand still, it would take for ever. */
const LIMIT_MS = 20_000;

/** A bucket with another file to read, whose server answers no PUT until it is let go. */
async function mountHeld() {
  await using owned = new AsyncDisposableStack();
  const bucket = owned.use(await TestBucket.start());
  await bucket.put("other", Buffer.alloc(OTHER_BYTES, 97));
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const proxy = owned.use(await FaultProxy.start(bucket.access.endpoint, () => undefined));
  proxy.hold = ({ method }) => (method === "PUT" ? gate : undefined);
  const mount = owned.use(await mountBucket(bucket, ["--endpoint-url", proxy.url]));
  owned.defer(letGo);
  const all = owned.move();
  return { bucket, mount, letGo, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** By a process that can be killed: a read of this one would hold the test for ever. */
async function bytesReadFrom(path: string): Promise<number> {
  const limits = { timeout: LIMIT_MS, killSignal: "SIGKILL" } as const;
  const options = { ...limits, maxBuffer: 2 * OTHER_BYTES };
  const { stdout } = await promisify(execFile)("cat", [path], options);
  return stdout.length;
}

test(`${EMPTY_FILES} empty files that wait for S3 leave reads of others working`, async () => {
  await using held = await mountHeld();
  const { bucket, mount, letGo } = held;
  const names = Array.from({ length: EMPTY_FILES }, (_, n) => `empty-${n}`);
  for (const name of names) await fs.writeFile(join(mount.dir, name), "");
  assert.equal(await bytesReadFrom(join(mount.dir, "other")), OTHER_BYTES);
  assert.deepEqual(await bucket.keys(), ["other"]);
  mount.engine.child.kill("SIGTERM");
  await sleep(500); // the engine reads what the kernel has queued before it counts open files
  letGo();
  assert.equal((await mount.engine.ended).status, 0);
  assert.deepEqual(await bucket.keys(), [...names, "other"].toSorted());
});

test("files that were closed are uploaded by the next engine when theirs is killed", async () => {
  await using held = await mountHeld();
  const { bucket, mount, letGo } = held;
  const names = Array.from({ length: EMPTY_FILES }, (_, n) => `empty-${n}`);
  for (const name of names) await fs.writeFile(join(mount.dir, name), "");
  assert.equal(await bytesReadFrom(join(mount.dir, "other")), OTHER_BYTES);
  const { servingPid } = mount.engine;
  assert(servingPid !== undefined);
  process.kill(servingPid, "SIGKILL");
  letGo();
  for (const name of names) assert.equal((await fs.readFile(join(mount.dir, name))).length, 0);
  assert.deepEqual(await bucket.keys(), [...names, "other"].toSorted());
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
});

test(`${WRITERS} writers that are killed in close leave reads of others working`, async () => {
  await using held = await mountHeld();
  const { mount, letGo } = held;
  const shells = Array.from({ length: WRITERS }, (_, n) => {
    const words = ["KILL", "sh", "-c", `echo x > ${join(mount.dir, `file-${n}`)}`];
    const child = spawn("setpriv", ["--pdeathsig", ...words], { stdio: "ignore" });
    return { child, exited: once(child, "exit") };
  });
  const untilMs = performance.now() + 3 * LIMIT_MS;
  while ((await writtenFiles(mount.dir)) < WRITERS) {
    assert(performance.now() < untilMs, "not all shells have written");
    await sleep(100);
  }
  for (const { child } of shells) child.kill("SIGKILL");
  // The exit of a shell that was killed before it came to its close can't be interrupted.
  while (shells.filter(isLeft).length > WRITERS / 2) {
    assert(performance.now() < untilMs, "most shells are left");
    await sleep(100);
  }
  assert.equal(await bytesReadFrom(join(mount.dir, "other")), OTHER_BYTES);
  letGo();
  await Promise.all(shells.map(({ exited }) => exited));
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
});

function isLeft({ child }: { readonly child: ChildProcess }): boolean {
  return child.exitCode === null && child.signalCode === null;
}

/** The kernel does not tell when a program waits in close(2): its file is looked at instead. */
async function writtenFiles(dir: string): Promise<number> {
  const names = (await fs.readdir(dir)).filter((name) => name.startsWith("file-"));
  const stats = await Promise.all(names.map((name) => fs.stat(join(dir, name))));
  return stats.filter(({ size }) => size > 0).length;
}
