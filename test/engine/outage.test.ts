import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readlinkSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

/** Longer than any test takes: nothing but a signal ends the wait for S3. */
const PATIENT = "--outage-limit=86400";
const seen = new Map<number, string>();

/** Whether a process is in the same FUSE request as when it was last asked for. */
function waitsForAnswer(pid: number): boolean {
  const written = readFileSync(`/proc/${pid}/io`, "utf8");
  const waits = readFileSync(`/proc/${pid}/wchan`, "utf8") === "request_wait_answer";
  const still = seen.get(pid) === written;
  seen.set(pid, written);
  return waits && still;
}

describe("when S3 is away", () => {
  let bucket: TestBucket;
  const stopServer = () => {
    const stopped = new DisposableStack();
    process.kill(bucket.server.service.pid, "SIGSTOP");
    stopped.defer(() => process.kill(bucket.server.service.pid, "SIGCONT"));
    return stopped;
  };
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("file", Buffer.alloc(3_000_000, 7));
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("a reader of a hanging endpoint can be killed, and the mount goes on afterwards", async ({
    signal,
  }) => {
    await using mount = await mountBucket(bucket, [PATIENT]);
    const path = join(mount.dir, "file");
    using stopped = stopServer();
    const cat = spawn("cat", [path], { stdio: "ignore" });
    const exited = once(cat, "exit", { signal });
    // The kernel tells nobody that a process waits for a filesystem.
    while (!waitsForAnswer(cat.pid ?? 0)) await delay(100, undefined, { signal });
    cat.kill("SIGKILL");
    assert.deepEqual(await exited, [null, "SIGKILL"]);
    stopped.dispose();
    assert.equal((await fs.readFile(path)).length, 3_000_000);
  });

  test("a writer can be killed, and its file, which is cut off, does not appear", async ({
    signal,
  }) => {
    const args = ["--memory-target=64", "--part-size=5242880", PATIENT];
    await using mount = await mountBucket(bucket, args);
    const path = join(mount.dir, "killed");
    const writer = spawn("dd", [`of=${path}`, "bs=1M", "iflag=fullblock"], { stdio: "pipe" });
    const { pid = 0 } = writer;
    const exited = once(writer, "exit", { signal });
    writer.stdin.on("error", () => undefined); // it dies before it has read all
    // The kernel tells nobody that a process has opened a file, or waits for a filesystem.
    while (readlinkSync(`/proc/${pid}/fd/1`) !== path) await delay(20, undefined, { signal });
    using stopped = stopServer();
    writer.stdin.write(Buffer.alloc(200 << 20, 7));
    while (!waitsForAnswer(pid)) await delay(200, undefined, { signal });
    writer.kill("SIGKILL");
    assert.deepEqual(await exited, [null, "SIGKILL"]);
    stopped.dispose();
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    assert(!(await bucket.keys()).includes("killed"));
    assert.equal(await bucket.unfinishedUploads(), 0);
  });

  test("programs that make and remove names can be killed while they wait", async ({ signal }) => {
    // Each in a directory of its own, which the kernel locks for as long as the change takes.
    for (const key of ["one/doomed", "two/marker/", "three/file"]) await bucket.put(key, "");
    const args = ["--allow-delete", "--metadata-ttl", "3600", PATIENT];
    await using mount = await mountBucket(bucket, args);
    const at = (name: string) => join(mount.dir, name);
    // The kernel does not look up a name that it knows: so the request that hangs is the change.
    await Promise.all([fs.stat(at("one/doomed")), fs.stat(at("two/marker"))]);
    await assert.rejects(fs.stat(at("three/made")), code("ENOENT"));
    const commands = { rm: "one/doomed", rmdir: "two/marker", mkdir: "three/made" };
    using stopped = stopServer();
    const programs = Object.entries(commands).map(([program, name]) =>
      spawn(program, [at(name)], { stdio: "ignore" }),
    );
    const exits = Promise.all(programs.map((program) => once(program, "exit", { signal })));
    const doAllWait = () => programs.map(({ pid = 0 }) => waitsForAnswer(pid)).every(Boolean);
    // The kernel tells nobody that a process waits for a filesystem.
    while (!doAllWait()) await delay(100, undefined, { signal });
    for (const program of programs) program.kill("SIGKILL");
    assert.deepEqual(
      await exits,
      programs.map(() => [null, "SIGKILL"]),
    );
    stopped.dispose();
    assert.equal((await fs.readFile(at("file"))).length, 3_000_000, "the mount goes on");
    await fs.mkdir(at("three/made"));
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });

  test("the deletion of a killed rm that fails in the outage is not sent by a later engine", async ({
    signal,
  }) => {
    await bucket.put("kept", "content");
    let isAway = false;
    // A server that hangs would execute the DELETE later: the requests must not reach it.
    const decide = () => (isAway ? "drop the request" : undefined);
    await using proxy = await FaultProxy.start(bucket.access.endpoint, decide);
    // The signal ends the rm before the outage does, and the restored deletion fails soon.
    const args = ["--allow-delete", "--metadata-ttl", "3600", "--outage-limit", "10"];
    await using mount = await mountBucket(bucket, args, { AWS_ENDPOINT_URL: proxy.url });
    const killer = new EngineKiller(mount.engine.child);
    const path = join(mount.dir, "kept");
    await using held = await fs.open(path); // the rm asks for nothing but the deletion
    isAway = true;
    const rm = spawn("rm", [path], { stdio: "ignore" });
    const exited = once(rm, "exit", { signal });
    // The kernel tells nobody that a process waits for a filesystem.
    while (!waitsForAnswer(rm.pid ?? 0)) await delay(100, undefined, { signal });
    rm.kill("SIGKILL");
    assert.deepEqual(await exited, [null, "SIGKILL"]);
    await killer.kill();
    // Opened without a LOOKUP, which would fail before the deletion does: an OPEN waits for it.
    await assert.rejects(fs.readFile(`/proc/self/fd/${held.fd}`), code("EIO"));
    isAway = false;
    assert.equal(await fs.readFile(path, "utf8"), "content");
    await killer.kill();
    await killer.untilServing();
    assert.equal(await fs.readFile(path, "utf8"), "content");
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    assert.equal(String(await bucket.get("kept")), "content");
  });

  test("a pause of the endpoint is waited out by readers and writers", async () => {
    await using mount = await mountBucket(bucket);
    process.kill(bucket.server.service.pid, "SIGSTOP");
    const reading = fs.readFile(join(mount.dir, "file"));
    const writing = fs.writeFile(join(mount.dir, "patient"), "written");
    await delay(1_500);
    process.kill(bucket.server.service.pid, "SIGCONT");
    assert.equal((await reading).length, 3_000_000);
    await writing;
    assert.equal((await bucket.get("patient")).toString(), "written");
  });

  test("a crowd of writers that wait for a hanging endpoint leaves the mount to the others", async () => {
    await using mount = await mountBucket(bucket, ["--memory-target=64", "--part-size=5242880"]);
    const names = Array.from({ length: 20 }, (_, n) => join(mount.dir, `waits-${n}`));
    const files = await Promise.all(names.map((name) => fs.open(name, "w")));
    process.kill(bucket.server.service.pid, "SIGSTOP");
    const writers = files.map(({ fd }) =>
      spawn("dd", ["if=/dev/zero", "bs=1M", "count=40"], { stdio: ["ignore", fd, "ignore"] }),
    );
    const exits = writers.map((writer) => once(writer, "exit"));
    // The kernel tells nobody that a process waits for a filesystem.
    while (!writers.map(({ pid = 0 }) => waitsForAnswer(pid)).every(Boolean)) await delay(200);
    assert((await fs.statfs(mount.dir)).bsize > 0);
    process.kill(bucket.server.service.pid, "SIGCONT");
    const ends = await Promise.all(exits);
    assert(ends.every(([status]) => status === 0));
    await Promise.all(files.map((file) => file.close()));
    const sizes = await Promise.all(names.map(async (name) => (await fs.stat(name)).size));
    assert.deepEqual(sizes, Array(names.length).fill(40 << 20));
  });

  test("an upload that can't be made is an error at close, and leaves no file behind", async () => {
    await using mount = await mountBucket(bucket, ["--outage-limit=1"]);
    const file = await fs.open(join(mount.dir, "lost"), "w");
    await file.write("never stored");
    await bucket.server.service.kill();
    await assert.rejects(file.close(), code("EIO"));
    await assert.rejects(fs.stat(join(mount.dir, "lost")), code("EIO"));
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });
});
