import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { on } from "node:events";
import { watch } from "node:fs";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const MIB = 1 << 20;
const HEADER_BYTES = 4096;
const LARGE = randomBytes(20 * MIB + 12_345);
const LARGE_PIECES = 21;
const SMALL = randomBytes(5000);

/** Of one file alone: others use this machine too. */
async function dropPageCache(path: string): Promise<void> {
  await run("dd", [`if=${path}`, "iflag=nocache", "count=0", "status=none"]);
}

const piecesDir = (cacheDir: string) => join(cacheDir, "s3csi-cache");

async function pieces(cacheDir: string): Promise<string[]> {
  const names = await fs.readdir(piecesDir(cacheDir));
  return names.filter((name) => /^[0-9a-f]{32}-/.test(name)).toSorted();
}

/** Pieces are written behind the reader's back. */
async function untilPieces(cacheDir: string, count: number): Promise<void> {
  const watcher = watch(piecesDir(cacheDir));
  using _ = { [Symbol.dispose]: () => watcher.close() };
  const events = on(watcher, "change", { signal: AbortSignal.timeout(20_000) });
  const enough = async () => (await pieces(cacheDir)).length >= count;
  if (await enough()) return;
  for await (const _change of events) if (await enough()) return;
}

/** As du counts, which fails when a file goes under its eyes. */
async function diskBytes(cacheDir: string): Promise<number> {
  const dir = piecesDir(cacheDir);
  const blocks = new Map([["", (await fs.stat(dir)).blocks]]);
  for (const name of await fs.readdir(dir)) {
    const stat = await fs.stat(join(dir, name)).catch(() => undefined);
    if (stat !== undefined) blocks.set(String(stat.ino), stat.blocks);
  }
  return blocks.values().reduce((sum, count) => sum + count * 512, 0);
}

async function readsRight(dir: string, name: "large" | "small"): Promise<void> {
  const path = join(dir, name);
  await dropPageCache(path);
  assert((await fs.readFile(path)).equals(name === "large" ? LARGE : SMALL), `${name} is wrong`);
}

describe("a cache on a disk", () => {
  let bucket: TestBucket;
  let proxy: FaultProxy;
  let fetchedRanges: string[] = [];
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("large", LARGE);
    await bucket.put("small", SMALL);
    proxy = await FaultProxy.start(bucket.access.endpoint, ({ headers }) => {
      if (headers.range !== undefined) fetchedRanges.push(headers.range);
      return undefined;
    });
  });
  after(() => proxy[Symbol.asyncDispose]());
  after(() => bucket[Symbol.asyncDispose]());

  const mountWithCache = (cacheDir: string, ...args: string[]) => {
    fetchedRanges = [];
    const words = ["--endpoint-url", proxy.url, "--cache", cacheDir, ...args];
    return mountBucket(bucket, words);
  };
  test("what was read once comes from the disk, also after a restart", async () => {
    await using cache = await temporaryDirectory();
    {
      await using mount = await mountWithCache(cache.path);
      await readsRight(mount.dir, "large");
      await readsRight(mount.dir, "small");
      await untilPieces(cache.path, LARGE_PIECES + 1);
      fetchedRanges = [];
      await readsRight(mount.dir, "large");
      await readsRight(mount.dir, "small");
      assert.deepEqual(fetchedRanges, []);
      assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    }
    await using mount = await mountWithCache(cache.path);
    await readsRight(mount.dir, "large");
    assert.deepEqual(fetchedRanges, []);
  });

  test("reads at random fetch little, and each place once", async () => {
    await using cache = await temporaryDirectory();
    await using mount = await mountWithCache(cache.path);
    const places = Array.from({ length: 40 }, (_, n) => (((n + 1) * 2_654_435_761) % 5000) * 4096);
    const readAll = async () => {
      await dropPageCache(join(mount.dir, "large"));
      await using file = await fs.open(join(mount.dir, "large"));
      for (const at of places) {
        const { buffer } = await file.read(Buffer.alloc(4096), 0, 4096, at);
        assert(buffer.equals(LARGE.subarray(at, at + 4096)));
      }
    };
    await readAll();
    const sizes = fetchedRanges.map((range) => {
      const [, from = "", to = ""] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
      return Number(to) - Number(from) + 1;
    });
    assert(Math.max(...sizes) <= 128 * 1024, `up to ${Math.max(...sizes)} bytes for one read`);
    await untilPieces(cache.path, fetchedRanges.length);
    fetchedRanges = [];
    await readAll();
    assert.deepEqual(fetchedRanges, []);
  });

  // prettier-ignore
  const damages: [name: string, damage: (path: string, other: string) => Promise<void>][] = [
    ["a bit of the magic",     (path) => flip(path, 0)],
    ["a bit of the names",     (path) => flip(path, 40)],
    ["a bit between",          (path) => flip(path, 3000)],
    ["a bit of a checksum",    (path) => flip(path, HEADER_BYTES - 64)],
    ["the first bit of data",  (path) => flip(path, HEADER_BYTES)],
    ["a bit of data",          (path) => flip(path, HEADER_BYTES + 12_000)],
    ["the end cut off",        (path) => fs.truncate(path, HEADER_BYTES + 12_000)],
    ["all cut off",            (path) => fs.truncate(path, 0)],
    ["zeros",                  async (path) => fs.writeFile(path, Buffer.alloc((await fs.stat(path)).size))],
    ["another piece",          (path, other) => fs.copyFile(other, path)],
    ["nothing there",          (path) => fs.rm(path)],
  ];

  test("damage of any kind to any piece is found and mended", async () => {
    await using cache = await temporaryDirectory();
    await using mount = await mountWithCache(cache.path);
    await readsRight(mount.dir, "large");
    await untilPieces(cache.path, LARGE_PIECES);
    for (const [name, damage] of damages) {
      const [first = "", ...rest] = await pieces(cache.path);
      const paths = [first, ...rest].map((piece) => join(piecesDir(cache.path), piece));
      for (const [index, path] of paths.entries()) {
        await damage(path, paths[(index + 1) % paths.length] ?? "");
      }
      fetchedRanges = [];
      await readsRight(mount.dir, "large");
      assert(fetchedRanges.length > 0, `${name}: not noticed`);
      // Pieces come back, and are right this time.
      const settled = async () => {
        fetchedRanges = [];
        await readsRight(mount.dir, "large");
        return fetchedRanges.length === 0;
      };
      for (let tries = 0; !(await settled()); tries++) assert(tries < 20, `${name}: not mended`);
    }
  });

  test("killed at any time while it fills, it leaves a cache that is right and within its limit", async () => {
    await using cache = await temporaryDirectory();
    const limit = 8 * MIB;
    for (const count of [1, 3, 7]) {
      await using mount = await mountWithCache(cache.path, "--max-cache-size=8");
      const reading = fs.readFile(join(mount.dir, "large")).catch(() => undefined);
      await untilPieces(cache.path, count);
      await mount.engine.stop("SIGKILL");
      await reading;
      assert((await diskBytes(cache.path)) <= limit);
    }
    await fs.writeFile(join(piecesDir(cache.path), "new-0"), randomBytes(MIB));
    await using mount = await mountWithCache(cache.path, "--max-cache-size=8");
    const left = await fs.readdir(piecesDir(cache.path));
    assert(!left.some((name) => name.startsWith("new-")), "a leftover");
    for (let pass = 0; pass < 3; pass++) {
      await readsRight(mount.dir, "large");
      assert((await diskBytes(cache.path)) <= limit);
    }
  });

  test("a full disk stops nobody", async () => {
    await using cache = await temporaryDirectory();
    await run("mount", ["-t", "tmpfs", "-o", "size=5m", "tmpfs", cache.path]);
    await using mount = await mountWithCache(cache.path, "--max-cache-size=1000");
    for (let pass = 0; pass < 3; pass++) await readsRight(mount.dir, "large");
    await readsRight(mount.dir, "small");
  });

  test("without a limit a part of the disk stays free", async () => {
    await using cache = await temporaryDirectory();
    await run("mount", ["-t", "tmpfs", "-o", "size=10m", "tmpfs", cache.path]);
    await using mount = await mountWithCache(cache.path);
    for (let pass = 0; pass < 3; pass++) {
      await readsRight(mount.dir, "large");
      const { bavail, blocks } = await fs.statfs(cache.path);
      assert(bavail >= blocks * 0.05, `${bavail} of ${blocks} are free`);
    }
    assert((await pieces(cache.path)).length >= 5);
  });

  test("an object that was replaced is read anew", async () => {
    await using cache = await temporaryDirectory();
    await using mount = await mountWithCache(cache.path, "--metadata-ttl=0");
    const path = join(mount.dir, "changing");
    for (const text of ["one", "two", "six"]) {
      await bucket.put("changing", text.repeat(1000));
      assert.equal(await fs.readFile(path, "utf8"), text.repeat(1000));
    }
  });

  test("two objects with the same content stay apart", async () => {
    await using cache = await temporaryDirectory();
    await using mount = await mountWithCache(cache.path);
    for (const key of ["twin-1", "twin-2"]) {
      await bucket.put(key, SMALL);
      assert((await fs.readFile(join(mount.dir, key))).equals(SMALL));
    }
    await untilPieces(cache.path, 2);
  });

  async function failsWith(cacheDir: string, says: RegExp): Promise<void> {
    const args = [bucket.name, tmpdir(), "--cache", cacheDir];
    await using engine = new EngineProcess(args, engineEnvironment(bucket));
    const { status, stderr } = await engine.ended;
    assert.equal(status, 2);
    assert.match(stderr, says);
    assert.equal(stderr.trimEnd().split("\n").length, 1);
  }

  test("a directory that can't be used is a clear error before anything is mounted", async () => {
    await using cache = await temporaryDirectory();
    await failsWith("/no/such/dir", /--cache \/no\/such\/dir: can't be used: ENOENT/);
    await fs.writeFile(join(cache.path, "file"), "");
    await failsWith(join(cache.path, "file"), /--cache .*file: can't be used: ENOTDIR/);
    await using _mount = await mountWithCache(cache.path);
    await failsWith(cache.path, /--cache .*: another mount uses it/);
  });
});

async function flip(path: string, at: number): Promise<void> {
  await using file = await fs.open(path, "r+");
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at);
  await file.write(Buffer.from([(buffer[0] ?? 0) ^ 4]), 0, 1, at);
}
