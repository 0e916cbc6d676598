import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { FaultProxy } from "./fault-proxy.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const MIB = 1 << 20;

/** The errno names of what fails; undefined for what succeeds. */
async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}

/** Opens in the main thread, writes in a second one, closes in a third one. */
const THREADS = `
import os, sys, threading
def in_thread(work):
    thread = threading.Thread(target=work); thread.start(); thread.join()
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
in_thread(lambda: os.write(fd, b"x" * 1000))
def close():
    try:
        os.close(fd); print("closed")
    except OSError as error:
        print(error.strerror)
in_thread(close)
`;

/** A forked child closes its inherited copy while the parent goes on writing. */
const FORKED = `
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(fd, b"parent " * (1 << 20))
if os.fork() == 0:
    os.close(fd); os._exit(0)
os.wait()
os.write(fd, b"goes on")
os.close(fd)
`;

/** A program that only opens the file and passes it to two commands, each with two parts' bytes. */
const PASSED_ON = `
import subprocess, sys
with open(sys.argv[1], "wb") as file:
    for letter in "ab":
        command = f"head -c 9000000 /dev/zero | tr '\\\\0' {letter}"
        subprocess.run(["sh", "-c", command], stdout=file, check=True)
`;

describe("writes that fail", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("34 files of 33 MiB with parts of 128 MiB, all open at once: every one is whole", async () => {
    const FILES = 34;
    const WRITES = 33;
    await using mount = await mountBucket(bucket, ["--write-part-size", String(128 * MIB)]);
    const names = Array.from({ length: FILES }, (_, n) => `full-${n}`);
    const files = await Promise.all(names.map((name) => fs.open(join(mount.dir, name), "w")));
    const errors: unknown[] = [];
    for (let part = 0; part < WRITES; part++) {
      const writes = files.map((file, n) => file.write(Buffer.alloc(MIB, n * WRITES + part)));
      for (const result of await Promise.allSettled(writes)) {
        if (result.status === "rejected") errors.push(result.reason);
      }
    }
    for (const file of files) await file.close().catch((error: unknown) => errors.push(error));
    assert.deepEqual(errors, []);
    for (const [n, name] of names.entries()) {
      const body = await bucket.get(name);
      assert.equal(body.length, WRITES * MIB, name);
      for (let part = 0; part < WRITES; part++) {
        const slice = body.subarray(part * MIB, (part + 1) * MIB);
        assert(slice.equals(Buffer.alloc(MIB, n * WRITES + part)), `${name} at ${part} MiB`);
      }
      await bucket.delete(name);
    }
    assert.equal(await bucket.unfinishedUploads(), 0);
  });

  test("a failed write is reported by write, fsync and close, and the old object stays", async () => {
    await bucket.put("old", "good");
    await using mount = await mountBucket(bucket, ["--allow-overwrite"]);
    const file = await fs.open(join(mount.dir, "old"), "w");
    await file.write(Buffer.alloc(9 * MIB, 1));
    assert.equal(await codeOf(file.write(Buffer.from("x"), 0, 1, 5)), "EINVAL");
    assert.equal(await codeOf(file.write(Buffer.from("x"), 0, 1, 9 * MIB)), "EINVAL");
    assert.equal(await codeOf(file.sync()), "EINVAL");
    assert.equal(await codeOf(file.close()), "EINVAL");
    assert.equal(String(await bucket.get("old")), "good");
    assert.equal(await fs.readFile(join(mount.dir, "old"), "utf8"), "good");
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    assert.equal(await bucket.unfinishedUploads(), 0);
  });

  test("close by another thread reports a failed upload; by a child it ends nothing", async () => {
    let refuses = false;
    const decide = ({ method }: { method?: string | undefined }) =>
      refuses && method === "PUT" ? ("500" as const) : undefined;
    await using proxy = await FaultProxy.start(bucket.access.endpoint, decide);
    const args = ["--endpoint-url", proxy.url];
    await using mount = await mountBucket(bucket, args, { AWS_MAX_ATTEMPTS: "1" });
    const python = (script: string, name: string) =>
      run("python3", ["-c", script, join(mount.dir, name)]);
    assert.equal((await python(THREADS, "threads")).stdout, "closed\n");
    assert.equal((await bucket.get("threads")).length, 1000, "as soon as close has returned");
    refuses = true;
    assert.equal((await python(THREADS, "refused")).stdout, "Input/output error\n");
    refuses = false;
    await python(FORKED, "forked");
    const body = await bucket.get("forked");
    assert.equal(body.length, 7 * MIB + 7);
    assert.equal(body.subarray(-7).toString(), "goes on");
  });

  test("a program's commands write one file after each other; none of them ends it", async () => {
    await bucket.put("passed-on", "the object before");
    await using mount = await mountBucket(bucket, ["--allow-overwrite"]);
    await run("python3", ["-c", PASSED_ON, join(mount.dir, "passed-on")]);
    const object = await bucket.get("passed-on");
    const whole = Buffer.concat(["a", "b"].map((letter) => Buffer.alloc(9_000_000, letter)));
    assert(whole.equals(object), `the object has ${object.length} bytes`);
  });

  test("a file is replaced right after its reader has closed it, every time", async () => {
    await bucket.put("read", Buffer.alloc(3 * MIB, 1));
    await using mount = await mountBucket(bucket, ["--allow-overwrite"]);
    const path = join(mount.dir, "read");
    for (let round = 0; round < 30; round++) {
      const reader = await fs.open(path, "r");
      await reader.read(Buffer.alloc(100), 0, 100, 0);
      await reader.close();
      await fs.writeFile(path, Buffer.alloc(3 * MIB, round));
    }
  });

  test("SIGTERM with files open: closed ones are there, open ones are not, no upload is left", async () => {
    await using mount = await mountBucket(bucket, ["--write-part-size", String(5 * MIB)]);
    const files = await Promise.all(
      Array.from({ length: 46 }, (_, n) => fs.open(join(mount.dir, `open-${n}`), "w")),
    );
    await fs.writeFile(join(mount.dir, "closed"), "all of it");
    await Promise.all(files.map((file, n) => file.write(Buffer.alloc((n % 12) * MIB + 1))));
    const more = files.map((file) => codeOf(file.write(Buffer.alloc(8 * MIB))));
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    await Promise.all(more);
    await Promise.all(files.map((file) => codeOf(file.close())));
    const keys = await bucket.keys();
    assert(keys.includes("closed"));
    assert.deepEqual(
      keys.filter((key) => key.startsWith("open-")),
      [],
    );
    assert.equal(await bucket.unfinishedUploads(), 0);
  });
});
