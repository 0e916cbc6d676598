import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as fc from "fast-check";
import { createLog } from "../base/pino-log.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import type { RangeRead } from "../s3/object-store.ts";
import { CacheDirectory } from "./cache-directory.ts";
import { CachedReader } from "./cached-reader.ts";
import { DiskCache } from "./disk-cache.ts";
import { limitedSpace } from "./space.ts";

const MIB = 1 << 20;
const OBJECT = Buffer.alloc(5 * MIB + 777);
for (let at = 0; at + 4 <= OBJECT.length; at += 4) OBJECT.writeUInt32LE(at, at);
const { signal } = new AbortController();

class CountingStore extends MemoryStore {
  fetchedBytes = 0;
  fetches = 0;

  override async read(range: RangeRead): Promise<void> {
    this.fetches += 1;
    this.fetchedBytes += range.into.length;
    const half = Math.floor(range.into.length / 2);
    await new Promise(setImmediate);
    range.onFilled(half);
    return super.read(range);
  }
}

async function start(limitMib: number) {
  const dir = await mkdtempDisposable(join(tmpdir(), "s3csi-cache-"));
  const inner = new CountingStore();
  const { etag } = await inner.put("key", OBJECT);
  const cache = DiskCache.open({
    directory: CacheDirectory.open(dir.path),
    space: limitedSpace(limitMib * MIB),
    log: createLog("silent", {}),
  });
  const store = new CachedReader(inner, cache, "name");
  const read = async (offsetBytes: number, sizeBytes: number, version = etag) => {
    const into = Buffer.alloc(sizeBytes);
    const filled = [0];
    const onFilled = (count: number) => {
      assert(count >= (filled.at(-1) ?? 0), "filled backwards");
      filled.push(count);
    };
    const pinned = { key: "key", etag: version, objectBytes: OBJECT.length };
    await store.read({ ...pinned, offsetBytes, into, onFilled }, signal);
    assert.equal(filled.at(-1), sizeBytes);
    await cache.settled();
    return into;
  };
  const close = async () => {
    await cache.close();
    await dir.remove();
  };
  return { inner, cache, store, read, [Symbol.asyncDispose]: close };
}

test("what was read once is not fetched again, in whatever parts", async () => {
  await using it = await start(20);
  assert((await it.read(0, OBJECT.length)).equals(OBJECT));
  assert.equal(it.inner.fetches, 1, "one request for all that is missing");
  for (const [from, size] of [
    [0, OBJECT.length],
    [5, 4096],
    [MIB - 1, 2 * MIB],
  ] as const) {
    assert((await it.read(from, size)).equals(OBJECT.subarray(from, from + size)));
  }
  assert.equal(it.inner.fetches, 1);
});

test("only what is missing is fetched, and never more than was asked for", async () => {
  await using it = await start(20);
  await it.read(2 * MIB, MIB);
  await it.read(MIB, 3 * MIB);
  assert.equal(it.inner.fetchedBytes, 3 * MIB);
  await it.read(123, 4096);
  assert.equal(it.inner.fetchedBytes, 3 * MIB + 4096);
  await it.read(123, 4096);
  assert.equal(it.inner.fetchedBytes, 3 * MIB + 4096, "small pieces are kept too");
});

test("another version is another object; without a version nothing is kept", async () => {
  await using it = await start(20);
  await it.read(0, 4096);
  const { etag } = await it.inner.put("key", Buffer.from(OBJECT).fill(7, 0, 100));
  assert.equal((await it.read(0, 4096, etag))[0], 7);
  await assert.rejects(it.read(0, 4096, ""));
  assert.equal(it.inner.fetches, 3);
});

test("a reader that has gone stops the fetches", async () => {
  await using it = await start(20);
  const into = Buffer.alloc(10);
  const pinned = { key: "key", etag: "e", objectBytes: OBJECT.length };
  const range = { ...pinned, offsetBytes: 0, into, onFilled: () => undefined };
  await assert.rejects(it.store.read(range, AbortSignal.abort(new Error("gone"))), /gone/);
  assert.equal(it.inner.fetches, 0);
});

test("any ranges by concurrent readers, with little room, give the right bytes", async () => {
  const range = fc.tuple(fc.nat(OBJECT.length - 1), fc.constantFrom(1, 4096, 131_072, 3 * MIB));
  const property = fc.asyncProperty(fc.array(range, { maxLength: 20 }), async (ranges) => {
    await using it = await start(4);
    const reading = ranges.map(async ([from, size]) => {
      const end = Math.min(from + size, OBJECT.length);
      assert((await it.read(from, end - from)).equals(OBJECT.subarray(from, end)));
    });
    await Promise.all(reading);
    assert.equal(it.cache.counts.damaged, 0);
  });
  await fc.assert(property, { numRuns: 30 });
});
