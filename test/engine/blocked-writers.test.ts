import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import { FaultProxy } from "./fault-proxy.ts";
import { mountBucket } from "./engine-process.ts";
import { fioCommand } from "./fio.ts";
import { TestBucket } from "./test-bucket.ts";

const WRITERS = 500;
/** More than the kernel has places for requests that nobody waits for (max_background). */
const ASYNCHRONOUS_WRITERS = 150;
const FILE_BYTES = 1 << 20;
/** Far more than each takes on a busy machine; a mount that stands still would take for ever. */
const LIMIT_MS = 120_000;

type Exit = [status: number | null, signal: string | null];

function failed([status, signal]: Exit): never {
  throw new Error(`a writer has ended early (${status ?? signal})`);
}

async function within<T>(what: string, work: Promise<T>): Promise<T> {
  const late = sleep(LIMIT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`${what} takes longer than ${LIMIT_MS} ms`);
  });
  return Promise.race([work, late]);
}

test(`${WRITERS} writers that wait for S3 leave reads, stat, kill and unlink of others working`, async ({
  signal,
}) => {
  await using bucket = await TestBucket.start();
  await bucket.put("other", "as ever");
  await bucket.put("unwanted", "x");
  const { promise: letGo, resolve: release } = Promise.withResolvers<void>();
  await using proxy = await FaultProxy.start(bucket.access.endpoint, () => undefined);
  proxy.hold = ({ method }) => (method === "PUT" ? letGo : undefined);
  const args = ["--endpoint-url", proxy.url, "--memory-target", "64", "--allow-delete"];
  await using mount = await mountBucket(bucket, args);
  const input = join(mount.dir, "..", `blocked-writers-${process.pid}`);
  await using owned = new AsyncDisposableStack();
  owned.defer(() => fs.rm(input, { force: true }));
  await fs.writeFile(input, Buffer.alloc(FILE_BYTES, 7));

  const writers = Array.from({ length: WRITERS }, (_, n) => {
    const words = [`if=${input}`, `of=${join(mount.dir, `file-${n}`)}`, "bs=64k", "status=none"];
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "dd", ...words], { stdio: "ignore" });
    return { child, exited: once(child, "exit") as Promise<Exit> };
  });
  owned.defer(() => writers.forEach(({ child }) => child.kill("SIGKILL")));
  // S3 has taken nothing: a writer that ends has failed.
  const ends = writers.map(({ exited }) => exited.then((end) => failed(end)));
  await Promise.race([untilAllOpen(mount.dir, WRITERS, signal), ...ends]);

  assert.equal(await within("read", fs.readFile(join(mount.dir, "other"), "utf8")), "as ever");
  assert.equal((await within("stat", fs.stat(join(mount.dir, "other")))).size, 7);
  await within("unlink", fs.unlink(join(mount.dir, "unwanted")));
  const [first, ...others] = writers;
  first?.child.kill("SIGKILL");
  await within("kill", first?.exited ?? Promise.reject(new Error("no writer")));

  release();
  for (const { exited } of others) assert.deepEqual(await exited, [0, null]);
  for (const n of [1, WRITERS - 1]) {
    assert.equal((await bucket.get(`file-${n}`)).length, FILE_BYTES);
  }
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  assert.equal(await bucket.unfinishedUploads(), 0);
});

test("asynchronous writers that wait for S3 leave reads of others working, and can be killed", async ({
  signal,
}) => {
  await using bucket = await TestBucket.start();
  await bucket.put("other", Buffer.alloc(4 << 20, 97)); // fetched ahead by the kernel
  const { promise: letGo, resolve: release } = Promise.withResolvers<void>();
  await using proxy = await FaultProxy.start(bucket.access.endpoint, () => undefined);
  proxy.hold = ({ method }) => (method === "PUT" ? letGo : undefined);
  await using mount = await mountBucket(bucket, [
    "--endpoint-url",
    proxy.url,
    "--memory-target",
    "64",
  ]);
  const [program, args, { env }] = await fioCommand(mount.dir, {
    name: "file-",
    ioengine: "libaio",
    numjobs: ASYNCHRONOUS_WRITERS,
    thread: 1, // one process to kill
    rw: "write",
    bs: "64k",
    size: FILE_BYTES,
    create_on_open: 1,
    do_verify: 0,
  });
  const words = ["--pdeathsig", "KILL", program, ...args];
  const writers = spawn("setpriv", words, { stdio: "ignore", env: { ...process.env, ...env } });
  const exited = once(writers, "exit") as Promise<Exit>;
  const ended = exited.then((end) => failed(end));
  try {
    await Promise.race([untilAllOpen(mount.dir, ASYNCHRONOUS_WRITERS, signal), ended]);
    await Promise.race([untilNoneGrows(mount.dir, signal), ended]);
    const other = await within("read", fs.readFile(join(mount.dir, "other")));
    assert.equal(other.length, 4 << 20);
    writers.kill("SIGKILL");
    await within("kill", exited);
  } finally {
    writers.kill("SIGKILL");
    release();
  }
  await exited;
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  assert.equal(await bucket.unfinishedUploads(), 0);
});

/** The kernel does not tell when a program waits in write(2): its files are looked at instead. */
async function untilAllOpen(dir: string, count: number, signal: AbortSignal): Promise<void> {
  while ((await writtenFiles(dir)).length !== count) await sleep(50, undefined, { signal });
}

async function untilNoneGrows(dir: string, signal: AbortSignal): Promise<void> {
  for (let known = -1; ;) {
    const names = await writtenFiles(dir);
    const stats = await Promise.all(names.map((name) => fs.stat(join(dir, name))));
    const sizeBytes = stats.reduce((sum, { size }) => sum + size, 0);
    if (sizeBytes === known) return;
    known = sizeBytes;
    await sleep(500, undefined, { signal });
  }
}

async function writtenFiles(dir: string): Promise<string[]> {
  return (await fs.readdir(dir)).filter((name) => name.startsWith("file-"));
}
