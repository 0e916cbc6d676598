import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const PART_BYTES = 5 << 20;
const SEEN_WITHIN_MS = 20_000;

/** The last close of a file is told to nobody: S3 has to be asked until it is done. */
async function eventually(what: string, check: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + SEEN_WITHIN_MS;
  while (!(await check())) {
    assert(performance.now() < endMs, what);
    await delay(50);
  }
}

describe("applications and their files", () => {
  let bucket: TestBucket;
  let mount: MountedBucket;
  const at = (name: string) => join(mount.dir, name);

  before(async () => {
    bucket = await TestBucket.start();
    mount = await mountBucket(bucket, ["--part-size", String(PART_BYTES), "--allow-delete"]);
  });
  after(async () => {
    await mount[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  const aroundParts = [1, 2].flatMap((parts) =>
    [-1, 0, 1].map((more) => parts * PART_BYTES + more),
  );
  for (const size of [0, 1, ...aroundParts]) {
    test(`a file of ${size} bytes with parts of ${PART_BYTES}`, async () => {
      const bytes = randomBytes(size);
      const name = `size-${size}`;
      await fs.writeFile(at(name), bytes);
      await eventually("stored", async () => (await bucket.keys()).includes(name)); // 0: at release
      assert((await bucket.get(name)).equals(bytes), "as stored");
      assert((await fs.readFile(at(name))).equals(bytes), "as read");
      assert.equal((await fs.stat(at(name))).size, size);
      assert.equal(await bucket.unfinishedUploads(), 0);
    });
  }

  for (const size of [10, PART_BYTES + 10]) {
    test(`${size} bytes whose last close is another process's than the opener's`, async () => {
      const bytes = randomBytes(size);
      const source = join("/tmp", `s3csi-source-${process.pid}-${size}`);
      await fs.writeFile(source, bytes);
      try {
        // The shell opens and goes; who writes and closes is a process that only inherited it.
        const script = `exec 3>"$1"; (sleep 0.2; cat "$2" >&3) & exit 0`;
        await run("bash", ["-c", script, "bash", at(`inherited-${size}`), source]);
        const name = `inherited-${size}`;
        await eventually("the file is stored", async () => (await bucket.keys()).includes(name));
        assert((await bucket.get(name)).equals(bytes));
        assert((await fs.readFile(at(name))).equals(bytes));
        assert.equal(await bucket.unfinishedUploads(), 0);
      } finally {
        await fs.rm(source);
      }
    });
  }

  test("a writer that is killed leaves a beginning of its file, and no upload", async () => {
    const writer = spawn("dd", ["if=/dev/zero", `of=${at("killed")}`, "bs=1M"], {
      stdio: "ignore",
    });
    const exited = once(writer, "exit");
    await eventually("three parts are written", async () => {
      const { size } = await fs.stat(at("killed")).catch(() => ({ size: 0 }));
      return size > 3 * PART_BYTES;
    });
    writer.kill("SIGKILL");
    assert.deepEqual(await exited, [null, "SIGKILL"]);
    await eventually("no upload is left", async () => (await bucket.unfinishedUploads()) === 0);
    const stored = await bucket.get("killed");
    assert(stored.length > 3 * PART_BYTES && stored.every((byte) => byte === 0));
    assert.equal((await fs.stat(at("killed"))).size, stored.length);
    await fs.unlink(at("killed"));
  });

  test("a reader that is killed harms nobody", async () => {
    const bytes = randomBytes(40_000_000);
    await bucket.put("read", bytes);
    const reader = spawn("cat", [at("read")], { stdio: ["ignore", "pipe", "ignore"] });
    const exited = once(reader, "exit");
    await once(reader.stdout, "readable"); // and the rest waits, since nobody takes it
    reader.kill("SIGKILL");
    assert.deepEqual(await exited, [null, "SIGKILL"]);
    assert((await fs.readFile(at("read"))).equals(bytes));
    await fs.unlink(at("read")); // nobody has it open any more
    await assert.rejects(fs.stat(at("read")), { code: "ENOENT" });
  });

  test("all is idle in the end, and the engine ends at once", async () => {
    assert.equal(await bucket.unfinishedUploads(), 0);
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });
});
