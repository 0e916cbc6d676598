import assert from "node:assert/strict";
import * as fs from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { CacheDirectory } from "./cache-directory.ts";
import { DiskCache } from "./disk-cache.ts";
import { BLOCK_BYTES, identify } from "./piece-file.ts";
import { limitedSpace, spaceBesides } from "./space.ts";
import type { Space } from "./space.ts";

const MIB = 1 << 20;
const CONTENT = Buffer.alloc(4 * BLOCK_BYTES);
for (let at = 0; at < CONTENT.length; at += 4) CONTENT.writeUInt32LE(at, at);
const log = createLog("silent", {});
const temporary = () => mkdtempDisposable(join(tmpdir(), "s3csi-cache-"));
const objectOf = (name: number) => identify("store", `key-${name}`, '"e"');

async function openCache(path: string, limit: number | Space) {
  const space = typeof limit === "number" ? limitedSpace(limit) : limit;
  const cache = DiskCache.open({ directory: CacheDirectory.open(path), space, log });
  await cache.ready;
  return Object.assign(cache, { [Symbol.asyncDispose]: () => cache.close() });
}

function filesOf(path: string): string[] {
  const names = fs.readdirSync(join(path, "s3csi-cache"));
  return names.filter((name) => name !== "lock").map((name) => join(path, "s3csi-cache", name));
}

/** As du counts: disk blocks, of the directory too. */
function diskBytes(path: string): number {
  let blocks = fs.statSync(join(path, "s3csi-cache")).blocks;
  for (const file of filesOf(path)) {
    blocks += fs.statSync(file, { throwIfNoEntry: false })?.blocks ?? 0;
  }
  return blocks * 512;
}

/** Looks at the disk between all steps that the cache makes. */
async function watched(path: string, limitBytes: number, work: Promise<unknown>): Promise<void> {
  const done = work.then(() => true);
  while (!(await Promise.race([done, setImmediate(false)]))) {
    assert(diskBytes(path) <= limitBytes, `${diskBytes(path)} bytes on the disk`);
  }
}

async function keep(cache: DiskCache, name: number, block: number, sizeBytes = BLOCK_BYTES) {
  const at = block * BLOCK_BYTES;
  cache.offer(objectOf(name), at, CONTENT.subarray(at, at + sizeBytes));
  await cache.settled();
}

async function isRight(cache: DiskCache, name: number, offsetBytes: number, sizeBytes: number) {
  const into = Buffer.alloc(sizeBytes);
  if (!(await cache.read(objectOf(name), { offsetBytes, sizeBytes }, into))) return false;
  assert(into.equals(CONTENT.subarray(offsetBytes, offsetBytes + sizeBytes)), "wrong bytes");
  return true;
}

const step = fc.record({
  what: fc.constantFrom("offer", "offer", "offer", "read", "read", "damage", "truncate", "restart"),
  name: fc.nat(3),
  block: fc.nat(3),
  from: fc.constantFrom(0, 1, 4096, 70_000, BLOCK_BYTES - 5),
  sizeBytes: fc.constantFrom(1, 4096, 65_536, 200_000, BLOCK_BYTES),
  waits: fc.boolean(),
});

test("over any sequence the limit holds on the disk, and what comes back is right", async () => {
  const property = fc.asyncProperty(
    fc.array(step, { maxLength: 30 }),
    fc.constantFrom(1, 2, 3, 6),
    async (steps, limitMib) => {
      await using dir = await temporary();
      let cache = await openCache(dir.path, limitMib * MIB);
      for (const { what, name, block, from, sizeBytes, waits } of steps) {
        const at = block * BLOCK_BYTES + from;
        const size = Math.min(sizeBytes, BLOCK_BYTES - from);
        const [file] = filesOf(dir.path);
        if (what === "offer") cache.offer(objectOf(name), at, CONTENT.subarray(at, at + size));
        if (what === "read") await isRight(cache, name, at, size);
        if (what === "damage" && file !== undefined) fs.writeFileSync(file, "x", { flag: "r+" });
        if (what === "truncate" && file !== undefined) fs.truncateSync(file, 5000);
        if (what === "restart") {
          await watched(dir.path, limitMib * MIB, cache.close());
          cache = await openCache(dir.path, limitMib * MIB);
        }
        if (waits) await watched(dir.path, limitMib * MIB, cache.settled());
        assert(cache.usedBytes <= limitMib * MIB);
      }
      await watched(dir.path, limitMib * MIB, cache.close());
    },
  );
  await fc.assert(property, { numRuns: 60 });
});

test("the piece that was used longest ago goes first", async () => {
  await using dir = await temporary();
  await using cache = await openCache(dir.path, 3 * MIB);
  await keep(cache, 0, 0);
  await keep(cache, 1, 0);
  assert(await isRight(cache, 0, 0, 10));
  await keep(cache, 2, 0);
  assert.deepEqual(await Promise.all([0, 1, 2].map((name) => isRight(cache, name, 0, 10))), [
    true,
    false,
    true,
  ]);
});

test("a larger piece takes the place of what it contains", async () => {
  await using dir = await temporary();
  await using cache = await openCache(dir.path, 10 * MIB);
  await keep(cache, 0, 1, 4096);
  await keep(cache, 0, 1);
  assert.equal(filesOf(dir.path).length, 1);
  await keep(cache, 0, 1, 4096);
  assert.equal(filesOf(dir.path).length, 1, "it was there already");
});

test("a successor takes up what is there, within its own limit, and removes the rest", async () => {
  await using dir = await temporary();
  {
    await using cache = await openCache(dir.path, 10 * MIB);
    for (const name of [0, 1, 2, 3]) await keep(cache, name, 0);
  }
  fs.writeFileSync(join(dir.path, "s3csi-cache", "new-7"), Buffer.alloc(MIB));
  fs.mkdirSync(join(dir.path, "s3csi-cache", "what", "ever"), { recursive: true });
  await using cache = await openCache(dir.path, 3 * MIB);
  assert(diskBytes(dir.path) <= 3 * MIB);
  assert.equal(filesOf(dir.path).length, 2);
  const kept = await Promise.all([0, 1, 2, 3].map((name) => isRight(cache, name, 0, 10)));
  assert.deepEqual(kept, [false, false, true, true]);
});

test("a share of the file system that must stay free is left free", async () => {
  await using dir = await temporary();
  const { bavail, blocks } = fs.statfsSync(dir.path);
  await using cache = await openCache(dir.path, spaceBesides(dir.path, (bavail / blocks) * 1.1));
  await keep(cache, 0, 0);
  assert.deepEqual([filesOf(dir.path).length, cache.counts.dropped], [0, 1]);
});

test("a disk that can't be written is left alone for a while, and nobody hears of it", async () => {
  await using dir = await temporary();
  await using cache = await openCache(dir.path, 10 * MIB);
  await keep(cache, 0, 0);
  const usedBytes = cache.usedBytes;
  fs.renameSync(join(dir.path, "s3csi-cache"), join(dir.path, "away"));
  await keep(cache, 1, 0);
  assert.deepEqual([cache.counts.failed, cache.usedBytes], [1, usedBytes]);
  await keep(cache, 2, 0);
  assert.deepEqual([cache.counts.failed, cache.counts.dropped], [1, 1]);
  assert(!(await isRight(cache, 0, 0, 10)));
});

test("what waits for the disk is bounded", async () => {
  await using dir = await temporary();
  await using cache = await openCache(dir.path, 100 * MIB);
  for (let name = 0; name < 40; name++) cache.offer(objectOf(name), 0, CONTENT.subarray(0, MIB));
  await cache.settled();
  assert.deepEqual([cache.counts.stored, cache.counts.dropped], [31, 9]);
});

function fails(path: string, kind: string, says: RegExp): void {
  assert.throws(
    () => CacheDirectory.open(path),
    (error) => error instanceof Failure && error.kind === kind && says.test(error.message),
  );
}

test("one mount at a time, in a directory that is nobody else's", async () => {
  await using dir = await temporary();
  {
    await using _first = await openCache(dir.path, MIB);
    assert.equal(fs.statSync(join(dir.path, "s3csi-cache")).mode & 0o777, 0o700);
    fails(dir.path, "conflict", /--cache .*: another mount uses it/);
  }
  CacheDirectory.open(dir.path).close();
  fails(join(dir.path, "missing"), "invalid", /--cache .*missing: can't be used: ENOENT/);
  fs.rmSync(join(dir.path, "s3csi-cache"), { recursive: true });
  fs.symlinkSync("/tmp", join(dir.path, "s3csi-cache"));
  fails(dir.path, "invalid", /is not a directory/);
});
