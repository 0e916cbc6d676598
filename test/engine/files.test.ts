import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

describe("files of a mounted bucket", () => {
  let bucket: TestBucket;
  let mount: MountedBucket;
  const at = (...names: string[]) => join(mount.dir, ...names);

  before(async () => {
    bucket = await TestBucket.start();
    mount = await mountBucket(bucket, ["--allow-delete", "--allow-overwrite"]);
  });
  after(async () => {
    await mount[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  test("a directory lists what the keys say, and stat knows size and time", async () => {
    await bucket.put("tree/a.txt", "hello");
    await bucket.put("tree/sub/deep/b", "x");
    assert.deepEqual(await fs.readdir(at("tree")), ["a.txt", "sub"]);
    const found = await fs.readdir(at("tree"), { recursive: true, withFileTypes: true });
    const kinds = found.map((entry) => `${entry.name}${entry.isDirectory() ? "/" : ""}`);
    assert.deepEqual(new Set(kinds), new Set(["a.txt", "b", "deep/", "sub/"]));
    const stat = await fs.stat(at("tree/a.txt"));
    assert.equal(stat.size, 5);
    assert.equal(stat.mode, 0o100644);
    assert(Math.abs(stat.mtimeMs - Date.now()) < 60_000);
    assert.equal(await fs.readFile(at("tree/a.txt"), "utf8"), "hello");
  });

  test("a large object reads back byte for byte, forwards and at random", async () => {
    const bytes = randomBytes(50_000_000);
    await bucket.put("large", bytes);
    const { stdout } = await run("sha256sum", [at("large")]);
    assert.equal(stdout.split(" ")[0], sha256(bytes));
    const file = await fs.open(at("large"), constants.O_RDONLY | constants.O_DIRECT);
    try {
      for (let n = 0; n < 50; n++) {
        const offset = Math.floor(Math.random() * 12_000) * 4096;
        const { buffer, bytesRead } = await file.read(Buffer.alloc(8192), 0, 8192, offset);
        assert.deepEqual(buffer.subarray(0, bytesRead), bytes.subarray(offset, offset + bytesRead));
      }
    } finally {
      await file.close();
    }
  });

  test("small and large files are in S3 when close returns", async () => {
    await fs.writeFile(at("small.txt"), "written");
    assert.equal((await bucket.get("small.txt")).toString(), "written");
    const bytes = randomBytes(45_000_001);
    await fs.writeFile(at("parts.bin"), bytes);
    assert.equal(sha256(await bucket.get("parts.bin")), sha256(bytes));
    assert.equal(await bucket.unfinishedUploads(), 0);
    assert.equal(sha256(await fs.readFile(at("parts.bin"))), sha256(bytes));
  });

  test("a shell's redirections work: empty files, several commands into one file", async () => {
    await run("sh", ["-c", `(echo one; /bin/echo two) > ${at("multi")}; : > ${at("empty")}`]);
    assert.equal(await fs.readFile(at("multi"), "utf8"), "one\ntwo\n");
    assert.equal((await fs.stat(at("empty"))).size, 0);
    assert.equal(await fs.readFile(at("empty"), "utf8"), "");
    assert.equal((await bucket.get("empty")).length, 0);
  });

  test("a small file may go on after fsync and after the close of a duplicate", async () => {
    await run("bash", ["-c", `exec 3>${at("log")}; echo one >&3; echo two >&3; exec 3>&-`]);
    assert.equal((await bucket.get("log")).toString(), "one\ntwo\n");
    const file = await fs.open(at("synced"), "w");
    await file.write("safe");
    await file.sync();
    assert.equal((await bucket.get("synced")).toString(), "safe");
    await file.write(", and more");
    await file.close();
    assert.equal((await bucket.get("synced")).toString(), "safe, and more");
    assert.equal(await fs.readFile(at("synced"), "utf8"), "safe, and more");
  });

  test("a directory is local until a file in it is uploaded", async () => {
    await fs.mkdir(at("made"));
    assert((await fs.readdir(mount.dir)).includes("made"));
    await fs.mkdir(at("made/inner"));
    await assert.rejects(fs.rmdir(at("made")), code("ENOTEMPTY"));
    await fs.rmdir(at("made/inner"));
    await fs.writeFile(at("made/file"), "x");
    await assert.rejects(fs.rmdir(at("made")), code("ENOTEMPTY"));
    assert((await bucket.keys()).includes("made/file"));
    await fs.writeFile(at("made/other"), "y");
    await fs.unlink(at("made/file"));
    await assert.rejects(fs.stat(at("made/file")), code("ENOENT"));
    assert(!(await bucket.keys()).includes("made/file"));
  });

  test("writes go in order, once; the errors are mount-s3's", async () => {
    const file = await fs.open(at("order"), "w");
    await file.write(Buffer.from("abc"), 0, 3, 0);
    await assert.rejects(file.write(Buffer.from("x"), 0, 1, 10), code("EINVAL"));
    await assert.rejects(file.close(), code("EINVAL"));
    await assert.rejects(fs.stat(at("order")), code("ENOENT"));

    const writing = await fs.open(at("busy"), "w");
    await writing.write(Buffer.from("abc"));
    await assert.rejects(fs.readFile(at("busy")), code("EPERM"));
    await assert.rejects(fs.open(at("busy"), "w"), code("EPERM"));
    await assert.rejects(fs.unlink(at("busy")), code("EPERM"));
    await assert.rejects(fs.rename(at("busy"), at("other")), code("EPERM"));
    await fs.utimes(at("busy"), 1, 1);
    await writing.close();

    await using both = await fs.open(at("busy"), "r+"); // readable, as nothing was truncated
    await assert.rejects(fs.open(at("busy"), "w"), code("EPERM"));
    await assert.rejects(fs.utimes(at("busy"), 1, 1), code("EPERM"));
    await assert.rejects(fs.rename(at("made"), at("other")), code("EPERM"));
    await assert.rejects(both.write("x"), code("EBADF"));
    await assert.rejects(fs.open(at("busy"), "a"), code("EPERM"));
    const synchronous = constants.O_WRONLY | constants.O_CREAT | constants.O_SYNC;
    await assert.rejects(fs.open(at("sync"), synchronous), code("EINVAL"));
    await assert.rejects(fs.rename(at("busy"), at("other")), code("ENOSYS"));
    await assert.rejects(fs.symlink("busy", at("link")), code("EPERM"));
    await assert.rejects(fs.stat(at("n".repeat(256))), code("ENAMETOOLONG"));
    await assert.rejects(fs.stat(at("nothing")), code("ENOENT"));
    await assert.rejects(fs.chmod(at("busy"), 0o600), code("EPERM"));
  });

  test("an overwritten file is new for everybody, here and elsewhere", async () => {
    await fs.writeFile(at("again"), "first");
    assert.equal(await fs.readFile(at("again"), "utf8"), "first");
    await fs.writeFile(at("again"), "second!");
    assert.equal(await fs.readFile(at("again"), "utf8"), "second!");
    await bucket.put("again", "by another client");
    await delay(1100); // the metadata's time to live
    assert.equal(await fs.readFile(at("again"), "utf8"), "by another client");
  });

  test("a reader whose object is replaced gets ESTALE, not a mixture", async () => {
    await bucket.put("changing", Buffer.alloc(20_000_000, 1));
    const file = await fs.open(at("changing"), "r");
    try {
      await file.read(Buffer.alloc(4096), 0, 4096, 0);
      await bucket.put("changing", Buffer.alloc(20_000_000, 2));
      const late = file.read(Buffer.alloc(4096), 0, 4096, 19_000_000);
      await assert.rejects(late, (error: Error & { errno?: number }) => error.errno === -116);
    } finally {
      await file.close();
    }
  });

  test("odd keys are files, impossible ones are hidden", async () => {
    const names = ["with space", "plus+and%25", "ünï ço∂e 🪣", "quote'\"<&>", "-dash", "a=b;c?d#e"];
    for (const name of names) await bucket.put(`odd/${name}`, name);
    assert.deepEqual(
      await fs.readdir(at("odd")),
      names.toSorted((a, b) => (a < b ? -1 : 1)),
    );
    for (const name of names) assert.equal(await fs.readFile(at("odd", name), "utf8"), name);
    await fs.writeFile(at("odd", "new ü+&"), "x");
    assert((await bucket.keys()).includes("odd/new ü+&"));
  });

  test("statfs gives sizes that fit into a signed 64-bit number", async () => {
    const { bsize, blocks, bfree, bavail } = await fs.statfs(mount.dir, { bigint: true });
    for (const count of [blocks, bfree, bavail]) {
      assert(BigInt.asIntN(64, count * bsize) > 0n, `${count} blocks of ${bsize} bytes`);
    }
    const { stdout } = await run("df", ["--output=size,avail", "-B1", mount.dir]);
    assert.equal(
      stdout.trim().split(/\s+/).slice(-2).join(),
      `${blocks * bsize},${bavail * bsize}`,
    );
  });

  test("a directory of more than one page is complete", async () => {
    const names = Array.from({ length: 1203 }, (_, n) => `f${String(n).padStart(4, "0")}`);
    for (let n = 0; n < names.length; n += 50) {
      await Promise.all(names.slice(n, n + 50).map((name) => bucket.put(`many/${name}`, "x")));
    }
    assert.deepEqual(await fs.readdir(at("many")), names);
    const startedMs = performance.now();
    for (const time of ["first", "second"]) {
      const { stdout } = await run("ls", ["-l", at("many")]);
      assert.equal(stdout.trimEnd().split("\n").length, names.length + 1, time);
    }
    assert(
      performance.now() - startedMs < 5_000,
      "attributes come with the listing, not one by one",
    );
  });
});
