import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Log } from "../base/log.ts";
import { CacheDirectory } from "../cache/cache-directory.ts";
import type { ObjectReader } from "../s3/object-store.ts";
import { reopenDiskCache } from "./bucket-cache.ts";

const OBJECT = "0123456789";
const memory = { pendingBytes: 1 << 20, pieces: 100 };
const openFiles = () => readdirSync("/proc/self/fd").length;
const signal = AbortSignal.timeout(20_000);

class CountingBucket implements ObjectReader {
  reads = 0;

  async read({ into, onFilled }: Parameters<ObjectReader["read"]>[0]): Promise<void> {
    this.reads += 1;
    into.write(OBJECT);
    onFilled(into.length);
  }
}

function setUp() {
  const path = mkdtempSync(join(tmpdir(), "s3csi-late-"));
  const messages: string[] = [];
  const write = (_facts: object | string, msg = "") => void messages.push(msg);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const dispose = () => rmSync(path, { recursive: true });
  return { path, log, messages, [Symbol.dispose]: dispose };
}

async function readAll(reader: ObjectReader): Promise<void> {
  const into = Buffer.alloc(OBJECT.length);
  const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT.length, offsetBytes: 0 };
  await reader.read({ ...pinned, into, onFilled: () => undefined }, signal);
  assert.equal(into.toString(), OBJECT);
}

/** Pieces are written behind the reader's back. */
async function isRead(reader: ObjectReader, bucket: CountingBucket): Promise<void> {
  for (let before = -1; bucket.reads !== before; signal.throwIfAborted()) {
    before = bucket.reads;
    await readAll(reader);
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

test("a cache that could not be opened is used as soon as its directory is there", async () => {
  using given = setUp();
  const directory = join(given.path, "later");
  const options = { directory, limitBytes: undefined, memory };
  const cache = reopenDiskCache(options, "bucket", given.log, 0);
  const bucket = new CountingBucket();
  const reader = cache.readerOf(bucket);
  for (const reads of [1, 2]) {
    await readAll(reader);
    assert.equal(bucket.reads, reads);
  }
  assert.deepEqual(given.messages, ["cache not opened, reading without it"], "told once");
  mkdirSync(directory);
  await isRead(reader, bucket);
  assert.deepEqual(given.messages.slice(1), ["cache opened"]);
  await cache.close();
});

test("a cache whose lock is held is used as soon as it is released", async () => {
  using given = setUp();
  const options = { directory: given.path, limitBytes: 1 << 24, memory };
  const holder = CacheDirectory.open(given.path);
  const cache = reopenDiskCache(options, "bucket", given.log, 0);
  const bucket = new CountingBucket();
  const reader = cache.readerOf(bucket);
  await readAll(reader);
  const before = openFiles();
  for (let n = 0; n < 10; n++) await readAll(reader);
  assert.equal(openFiles(), before, "an attempt leaves no descriptor");
  assert.equal(bucket.reads, 11);
  holder.close();
  await isRead(reader, bucket);
  await cache.close();
});

test("between two attempts to open the cache there is a pause", async () => {
  using given = setUp();
  const directory = join(given.path, "later");
  const options = { directory, limitBytes: undefined, memory };
  const cache = reopenDiskCache(options, "bucket", given.log);
  mkdirSync(directory);
  const bucket = new CountingBucket();
  await readAll(cache.readerOf(bucket));
  assert.deepEqual(readdirSync(directory), []);
  await cache.close();
});
