import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { cached } from "./cache.ts";

async function emptyCache(t: TestContext): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "s3csi-cache-"));
  t.after(() => rm(root, { recursive: true }));
  return root;
}

const writes = (text: string) => (dir: string) => writeFile(join(dir, "file"), text);

test("is made once per key, and found again", async (t) => {
  const root = await emptyCache(t);
  const one = await cached("thing", ["1"], writes("one"), root);
  assert.match(basename(one), /^thing-[0-9a-f]{16}$/);
  assert.equal(await cached("thing", ["1"], writes("never"), root), one);
  assert.equal(await readFile(join(one, "file"), "utf8"), "one");
  assert.notEqual(await cached("thing", ["2"], writes("two"), root), one);
});

test("the parts of a key are not run together", async (t) => {
  const root = await emptyCache(t);
  const one = await cached("thing", ["ab", "c"], writes("one"), root);
  assert.notEqual(await cached("thing", ["a", "bc"], writes("two"), root), one);
});

test("appears whole: nothing is at the finished name while it is made", async (t) => {
  const root = await emptyCache(t);
  const during: string[][] = [];
  await cached(
    "thing",
    [],
    async (dir) => {
      await writes("half")(dir);
      during.push((await readdir(root)).filter((name) => !name.startsWith(".")));
    },
    root,
  );
  assert.deepEqual(during, [[]]);
});

test("makes at the same time agree on one result and leave nothing else", async (t) => {
  const root = await emptyCache(t);
  const make = () => cached("thing", [], writes("same"), root);
  const dirs = await Promise.all(Array.from({ length: 5 }, make));
  assert.equal(new Set(dirs).size, 1);
  assert.deepEqual(await readdir(root), [basename(dirs[0] ?? "")]);
});

test("a make that fails leaves nothing, and the next one is tried", async (t) => {
  const root = await emptyCache(t);
  const failing = cached(
    "thing",
    [],
    async (dir) => {
      await writes("half")(dir);
      throw new Error("disk full");
    },
    root,
  );
  await assert.rejects(failing, /disk full/);
  assert.deepEqual(await readdir(root), []);
  assert(existsSync(await cached("thing", [], writes("whole"), root)));
});

test("what a killed make left is removed by a later one, a day on", async (t) => {
  const root = await emptyCache(t);
  const old = await mkdtemp(join(root, ".thing-"));
  const recent = await mkdtemp(join(root, ".thing-"));
  const twoDaysAgo = new Date(Date.now() - 2 * 86_400_000);
  await utimes(old, twoDaysAgo, twoDaysAgo);
  const made = await cached("thing", [], writes("whole"), root);
  assert.deepEqual((await readdir(root)).toSorted(), [basename(recent), basename(made)].toSorted());
});
