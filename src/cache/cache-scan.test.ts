import assert from "node:assert/strict";
import * as fs from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createLog } from "../base/pino-log.ts";
import { CacheDirectory } from "./cache-directory.ts";
import { DiskCache } from "./disk-cache.ts";
import { BLOCK_BYTES, HEADER_BYTES, identify } from "./piece-file.ts";
import { fileNameOf } from "./piece-index.ts";
import { PieceOrder } from "./piece-order.ts";
import { limitedSpace } from "./space.ts";

const MIB = 1 << 20;
const BLOCK = Buffer.alloc(BLOCK_BYTES, 7);
const temporary = () => mkdtempDisposable(join(tmpdir(), "s3csi-cache-"));
const objectOf = (name: number) => identify("store", `key-${name}`, '"e"');
const wholeBlock = { offsetBytes: 0, sizeBytes: BLOCK_BYTES };

function openCache(path: string, limitBytes: number) {
  const directory = CacheDirectory.open(path);
  const log = createLog("silent", {});
  const cache = DiskCache.open({ directory, space: limitedSpace(limitBytes), log });
  return Object.assign(cache, { [Symbol.asyncDispose]: () => cache.close() });
}

async function fill(path: string, count: number, limitBytes: number): Promise<void> {
  await using cache = openCache(path, limitBytes);
  for (let name = 0; name < count; name++) {
    cache.offer(objectOf(name), 0, BLOCK);
    await cache.settled();
  }
}

function diskBytes(path: string): number {
  const dir = join(path, "s3csi-cache");
  const blocks = ["", ...fs.readdirSync(dir)].map((name) => {
    return fs.statSync(join(dir, name), { throwIfNoEntry: false })?.blocks ?? 0;
  });
  return blocks.reduce((sum, count) => sum + count, 0) * 512;
}

test("a large directory is scanned in small steps, between which the event loop turns", async () => {
  await using dir = await temporary();
  await fill(dir.path, 0, 100 * MIB);
  const count = 2000;
  for (let serial = 0; serial < count; serial++) {
    const { hash } = objectOf(serial);
    const piece = { objectHash: hash, offsetBytes: 0, sizeBytes: 1, serial };
    const name = fileNameOf({ ...piece, chargedBytes: 0, readers: 0 });
    const path = join(dir.path, "s3csi-cache", name);
    fs.writeFileSync(path, "");
    fs.truncateSync(path, HEADER_BYTES + 1);
  }
  await using cache = openCache(dir.path, 100 * MIB);
  const found = () => {
    return Array.from({ length: count }, (_, n) => n).filter((n) =>
      cache.has(objectOf(n), { offsetBytes: 0, sizeBytes: 1 }),
    ).length;
  };
  const done = cache.ready.then(() => true);
  let [before, most, turns] = [found(), 0, 0];
  assert.equal(before, 0, "nothing was looked at before the first turn");
  while (!(await Promise.race([done, setImmediate(false)]))) {
    const now = found();
    most = Math.max(most, now - before);
    before = now;
    turns += 1;
  }
  assert.equal(found(), count);
  assert(most <= 200, `${most} files in one turn`);
  assert(turns >= 20, `${turns} turns`);
});

test("pieces that come while a scan is under way stay within the limit, and are kept", async () => {
  await using dir = await temporary();
  const limitBytes = 10 * MIB;
  await fill(dir.path, 8, limitBytes);
  await using cache = openCache(dir.path, limitBytes);
  for (let name = 100; name < 108; name++) cache.offer(objectOf(name), 0, BLOCK);
  const done = cache.settled().then(() => true);
  while (!(await Promise.race([done, setImmediate(false)]))) {
    assert(diskBytes(dir.path) <= limitBytes, `${diskBytes(dir.path)} bytes`);
  }
  assert.equal(cache.counts.stored, 8);
  assert(cache.usedBytes <= limitBytes);
  assert(cache.has(objectOf(107), wholeBlock));
  assert(!cache.has(objectOf(0), wholeBlock), "the oldest has made room");
});

test("a piece that is there and comes again while the scan is under way is kept once", async () => {
  await using dir = await temporary();
  await fill(dir.path, 1, 10 * MIB);
  await using cache = openCache(dir.path, 10 * MIB);
  cache.offer(objectOf(0), 0, BLOCK);
  await cache.settled();
  assert.equal(cache.counts.stored, 0);
  const into = Buffer.alloc(BLOCK_BYTES);
  assert(await cache.read(objectOf(0), wholeBlock, into));
  assert(into.equals(BLOCK));
});

test("a cache that is closed while it is scanned writes nothing, and leaves what is there", async () => {
  await using dir = await temporary();
  await fill(dir.path, 3, 10 * MIB);
  {
    await using cache = openCache(dir.path, 2 * MIB);
    cache.offer(objectOf(9), 0, BLOCK);
  }
  await using cache = openCache(dir.path, 10 * MIB);
  await cache.ready;
  const kept = [0, 1, 2, 9].map((name) => cache.has(objectOf(name), wholeBlock));
  assert.deepEqual(kept, [true, true, true, false]);
});

test("pieces are put in the order of their age, however many there are", async () => {
  const order = new PieceOrder();
  const ages = Array.from({ length: 10_000 }, (_, n) => (n * 7919) % 10_007);
  for (const [serial, mtimeMs] of ages.entries()) {
    const span = { objectHash: "", offsetBytes: 0, sizeBytes: 1 };
    order.add([{ piece: { ...span, serial, chargedBytes: 0, readers: 0 }, mtimeMs }]);
  }
  const taken = (await order.take()).map(({ mtimeMs }) => mtimeMs);
  assert.deepEqual(
    taken,
    ages.toSorted((left, right) => left - right),
  );
  assert.deepEqual(await new PieceOrder().take(), []);
});
