import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
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
