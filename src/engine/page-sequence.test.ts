import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import { MemoryStore } from "../s3/memory-store.ts";
import { PageSequence } from "./page-sequence.ts";
import type { PageSource } from "./page-sequence.ts";

const KEYS_PER_PAGE = 10;
const numbered = (count: number) =>
  Array.from({ length: count }, (_, n) => `f${String(n).padStart(4, "0")}`);
const hashed = (count: number) =>
  Array.from({ length: count }, (_, n) => createHash("sha1").update(`${n}`).digest("hex"));

/** A directory with these names, and what was asked about it. */
async function directoryOf(names: Iterable<string>, keysMax = KEYS_PER_PAGE) {
  const store = new MemoryStore();
  for (const name of names) await store.put(`d/${name}`, Buffer.alloc(0));
  const asked: (string | undefined)[] = [];
  const page: PageSource["page"] = async (continuationToken, startAfter) => {
    asked.push(continuationToken ?? startAfter);
    const query = { prefix: "d/", delimiter: "/", keysMax, continuationToken, startAfter } as const;
    return { ...(await store.list(query)), since: 0 };
  };
  return { store, asked, source: { prefix: "d/", ttlMs: 0, page } };
}

/** All keys, page by page. */
async function readAll(pages: PageSequence): Promise<string[]> {
  const keys: string[] = [];
  for (;;) {
    const page = await pages.current();
    const { objects, prefixes } = page;
    keys.push(...[...objects.map(({ key }) => key), ...prefixes].toSorted());
    pages.pass(page);
    if (page.nextToken === undefined) return keys;
  }
}

const name = fc.oneof(
  fc.nat({ max: 40 }).map((n) => `n${String(n).padStart(3, "0")}`),
  fc.nat({ max: 40 }).map((n) => `n${String(n * 7).padStart(3, "0")}.txt`),
  fc.nat({ max: 40 }).map((n) => `d${String(n).padStart(2, "0")}/x`),
  fc.nat({ max: 4000 }).map((n) => createHash("sha1").update(`${n}`).digest("hex")),
  fc.constantFrom("", "a", "b-", "zz", "d07-", "n1", "n0099"),
);

test("whatever the names are, every one comes once and in order", async () => {
  const property = fc.asyncProperty(
    fc.uniqueArray(name, { maxLength: 80 }),
    fc.integer({ min: 1, max: 12 }),
    async (names, keysMax) => {
      const { store, source, asked } = await directoryOf(names, keysMax);
      const shown = [...store.keys].map((key) => key.replace(/^(d\/[^/]*\/).*$/, "$1"));
      const expected = [...new Set(shown)].toSorted();
      assert.deepEqual(await readAll(new PageSequence(source)), expected);
      const pages = Math.max(1, Math.ceil(expected.length / keysMax));
      assert(asked.length <= 3 * pages + 3, `${asked.length} requests for ${pages} pages`);
    },
  );
  await fc.assert(property, { numRuns: 1000 });
});

test("names that are numbered or hashes are asked for several pages at once", async () => {
  for (const names of [numbered(3000), hashed(3000)]) {
    const { source, store } = await directoryOf(names, 250);
    let [underWay, most] = [0, 0];
    const page: PageSource["page"] = async (token, after) => {
      most = Math.max(most, ++underWay);
      await new Promise(setImmediate);
      underWay -= 1;
      return source.page(token, after);
    };
    const pages = new PageSequence({ ...source, page });
    assert.deepEqual(await readAll(pages), [...store.keys]);
    assert.equal(most, 3);
  }
});

test("numbered names cost two requests more at most", async () => {
  for (const [count, requests] of [
    [10, 1],
    [11, 3],
    [20, 3],
    [200, 22],
  ] as const) {
    const { source, asked } = await directoryOf(numbered(count));
    assert.equal((await readAll(new PageSequence(source))).length, count);
    assert(asked.length <= requests, `${asked.length} requests for ${count} names`);
  }
});

test("numbers that go on elsewhere are noticed", async () => {
  const names = [...numbered(45), ...numbered(100).map((one) => `g${one}`), "h1", "h2"];
  const { source, store, asked } = await directoryOf(names);
  assert.deepEqual(await readAll(new PageSequence(source)), [...store.keys]);
  assert(asked.length <= 24, `${asked.length} requests for 15 pages`);
});

test("a server that begins somewhere else than it is asked to is not asked so again", async () => {
  const { source, store, asked } = await directoryOf(numbered(200));
  const page: PageSource["page"] = (token, after) => source.page(token, after && "d/f0000");
  assert.deepEqual(await readAll(new PageSequence({ ...source, page })), [...store.keys]);
  assert(asked.length <= 20 + 9, `${asked.length} requests for 20 pages`);
});

test("where keys come in no order, nothing is guessed", async () => {
  const names = numbered(100);
  for (let n = 2; n < 100; n += 10) [names[n], names[n + 5]] = [names[n + 5] ?? "", names[n] ?? ""];
  const listed = names.map((one) => ({
    etag: "",
    sizeBytes: 0,
    mtimeMs: 0,
    archived: false,
    key: one,
  }));
  const page: PageSource["page"] = async (token, after) => {
    assert.equal(after, undefined);
    const from = Number(token ?? 0);
    const nextToken = from < 90 ? String(from + 10) : undefined;
    return { objects: listed.slice(from, from + 10), prefixes: [], nextToken, since: 0 };
  };
  const keys = await readAll(new PageSequence({ prefix: "", ttlMs: 0, page }));
  assert.equal(new Set(keys).size, 100);
});

test("nobody is told of a guessed page that fails: it is asked for by its token", async () => {
  const { source, store, asked } = await directoryOf(numbered(100));
  const page: PageSource["page"] = async (token, after) => {
    const found = await source.page(token, after);
    if (token === undefined && after !== undefined) throw new Error("not implemented");
    return found;
  };
  assert.deepEqual(await readAll(new PageSequence({ ...source, page })), [...store.keys]);
  assert(asked.length <= 10 + 9, `${asked.length} requests for 10 pages`);
});
