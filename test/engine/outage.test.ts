import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readlinkSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

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
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("file", Buffer.alloc(3_000_000, 7));
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("a reader of a hanging endpoint can be killed, and the mount goes on afterwards", async () => {
    await using mount = await mountBucket(bucket);
    const path = join(mount.dir, "file");
    process.kill(bucket.server.service.pid, "SIGSTOP");
    const cat = spawn("cat", [path], { stdio: "ignore" });
    const exited = once(cat, "exit");
    await delay(300);
    cat.kill("SIGKILL");
    const killed = await Promise.race([exited, delay(8_000)]);
    process.kill(bucket.server.service.pid, "SIGCONT");
    assert.deepEqual(killed, [null, "SIGKILL"]);
    assert.equal((await fs.readFile(path)).length, 3_000_000);
  });

  test("so can a writer, and what it has written is stored when S3 is back", async () => {
    await using mount = await mountBucket(bucket, ["--memory-target=64", "--part-size=5242880"]);
    const path = join(mount.dir, "killed");
    const writer = spawn("dd", [`of=${path}`, "bs=1M", "iflag=fullblock"], { stdio: "pipe" });
    const { pid = 0 } = writer;
    const exited = once(writer, "exit");
    writer.stdin.on("error", () => undefined); // it dies before it has read all
    // The kernel tells nobody that a process has opened a file, or waits for a filesystem.
    while (readlinkSync(`/proc/${pid}/fd/1`) !== path) await delay(20);
    process.kill(bucket.server.service.pid, "SIGSTOP");
    writer.stdin.write(Buffer.alloc(200 << 20, 7));
    while (!waitsForAnswer(pid)) await delay(200);
    writer.kill("SIGKILL");
    const killed = await Promise.race([exited, delay(8_000)]);
    process.kill(bucket.server.service.pid, "SIGCONT");
    assert.deepEqual(killed, [null, "SIGKILL"]);
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    const stored = await bucket.get("killed");
    assert(
      stored.length >= 5 << 20 && stored.every((byte) => byte === 7),
      `${stored.length} bytes`,
    );
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
