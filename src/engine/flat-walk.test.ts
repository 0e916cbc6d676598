import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import type { ListPage } from "../s3/object-store.ts";
import { FlatWalk } from "./flat-walk.ts";
import type { FlatSource } from "./flat-walk.ts";

/** Keys below `p/`, and what was asked about them. */
async function treeOf(keys: Iterable<string>, keysMax: number) {
  const store = new MemoryStore();
  for (const key of keys) await store.put(`p/${key}`, Buffer.alloc(0));
  await store.put("p0", Buffer.alloc(0));
  const asked: string[] = [];
  const source: FlatSource = {
    prefix: "p/",
    page: (startAfter) => {
      asked.push(startAfter.slice(2));
      const first = { continuationToken: undefined, startAfter };
      return store.list({ prefix: "p/", delimiter: "", keysMax, ...first });
    },
  };
  return { store, asked, source };
}

const STAMP = () => ({ sinceMs: 0, changes: 0 });
const NOBODY_KNOWS = () => [];
const turn = () => new Promise(setImmediate);

async function listed(store: MemoryStore, name: string): Promise<ListPage> {
  const rest = { delimiter: "/", keysMax: 1000, continuationToken: undefined } as const;
  return named(await store.list({ prefix: `p/${name}/`, ...rest }));
}

/** Without the directory's own object: it has no name, and may be told or not. */
function named(page: ListPage): ListPage {
  return { ...page, objects: page.objects.filter((object) => !object.key.endsWith("/")) };
}

const numbered = (directories: number, files: number) =>
  Array.from({ length: directories * files }, (_, n) => {
    const directory = String(Math.floor(n / files)).padStart(3, "0");
    return `d${directory}/f${String(n % files).padStart(3, "0")}`;
  });

const part = fc.constantFrom("a", "a-", "a0", "b", "b.txt", "c", "d1", "d2", "d3", "ö", "");
const key = fc
  .array(part, { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join("/"))
  .filter((one) => one !== "");

test("a directory is told as it would be listed, or not at all", async () => {
  let told = 0;
  const property = fc.asyncProperty(
    fc.uniqueArray(key, { maxLength: 60 }),
    fc.integer({ min: 1, max: 12 }),
    fc.integer({ min: 1, max: 5 }),
    fc.infiniteStream(fc.integer({ min: -1, max: 5 })),
    async (keys, keysMax, ahead, delays) => {
      const { store, source, asked } = await treeOf(keys, keysMax);
      const all = [...new Set(keys.flatMap((one) => /^(.+?)\//.exec(one)?.[1] ?? []))];
      const names = all.toSorted((left, right) => (`${left}/` < `${right}/` ? -1 : 1));
      // Answers overtake each other, and some are lost.
      const page: FlatSource["page"] = async (startAfter) => {
        const { value = 0 } = delays.next();
        const answer = source.page(startAfter);
        for (let turns = 0; turns < value; turns++) await turn();
        if (value === -1) throw new Error("lost");
        return answer;
      };
      const walk = new FlatWalk({ ...source, page }, STAMP);
      const find = (index: number) => {
        const following = (count: number) => names.slice(index + 1, index + 1 + count);
        return walk.find(names[index] ?? "", following).page;
      };
      const finding = names.slice(0, ahead).map((_, index) => find(index));
      for (const [index, name] of names.entries()) {
        if (index + ahead < names.length) finding.push(find(index + ahead));
        const found = await finding[index];
        if (found !== undefined) assert.deepEqual(named(found), await listed(store, name));
        told += found === undefined ? 0 : 1;
      }
      assert(asked.length <= 1 + names.length, `${asked.length} requests`);
    },
  );
  await fc.assert(property, { numRuns: 2000 });
  assert(told > 500, `${told} directories were told`);
});

test("directories of very different sizes are asked for ahead to the end of the walk", async () => {
  const names = Array.from({ length: 600 }, (_, n) => `d${n + 1000}`);
  const keys = names.flatMap((name, n) =>
    Array.from({ length: 2 + ((n * 7919) % 17) }, (_, file) => `${name}/f${file}`),
  );
  const { source, asked } = await treeOf(keys, 100);
  // An answer takes longer than the walker for the directories of one.
  const page: FlatSource["page"] = async (from) => {
    for (let turns = 0; turns < 14; turns++) await turn();
    return source.page(from);
  };
  const walk = new FlatWalk({ ...source, page }, STAMP);
  const find = (index: number) => {
    const following = (count: number) => names.slice(index + 1, index + 1 + count);
    return walk.find(names[index] ?? "", following).page;
  };
  const isHere = new Set<number>();
  const prepare = (index: number) => {
    const found = find(index);
    void found.then(() => isHere.add(index));
    return found;
  };
  const prepared = [0, 1, 2].map(prepare);
  let [waits, askedBefore] = [0, 0];
  for (let index = 0; index < names.length; index++) {
    if (index === 400) askedBefore = asked.length;
    if (index >= 400 && !isHere.has(index)) waits += 1;
    assert.notEqual(await prepared[index], undefined);
    if (index + 3 < names.length) prepared.push(prepare(index + 3));
    await turn();
  }
  const pages = asked.length - askedBefore;
  assert(waits < pages / 2, `${waits} waits, ${pages} pages`);
  assert(asked.length < (1.5 * keys.length) / 100, `${asked.length} requests`);
});

test("a request for many directories, the next two while those are walked through", async () => {
  const { source, store, asked } = await treeOf(numbered(40, 10), 100);
  const names = Array.from({ length: 40 }, (_, n) => `d${String(n).padStart(3, "0")}`);
  const walk = new FlatWalk(source, STAMP);
  const told = names.map((name, n) => walk.find(name, () => names.slice(n + 1)).page);
  for (const [n, name] of names.entries()) {
    assert.deepEqual(await told[n], await listed(store, name));
  }
  assert.deepEqual(asked, ["d000/", "d009/", "d018/", "d027/", "d036/"]);
});

test("where a page ends otherwise than the one before, nothing is missing", async () => {
  const keys = Array.from({ length: 400 }, (_, n) => `d${(n % 20) + 10}/f${n}`);
  const large = Array.from({ length: 60 }, (_, n) => `d15/g${n}`);
  const { source, store } = await treeOf([...keys, ...large], 100);
  const names = Array.from({ length: 20 }, (_, n) => `d${n + 10}`);
  const walk = new FlatWalk(source, STAMP);
  const told = names.map((name, n) => walk.find(name, () => names.slice(n + 1)).page);
  for (const [n, name] of names.entries()) {
    assert.deepEqual(await told[n], await listed(store, name));
  }
});

test("it ends at a directory with directories, and at one larger than a page", async () => {
  for (const more of [["d005/x/y"], numbered(6, 30).slice(150)]) {
    const { source, asked } = await treeOf([...numbered(5, 3), ...more, "d006/f", "d007/f"], 20);
    const walk = new FlatWalk(source, STAMP);
    const find = (n: number) => walk.find(`d00${n}`, NOBODY_KNOWS).page;
    for (let n = 0; n < 5; n++) assert.notEqual(await find(n), undefined);
    for (let n = 5; n < 8; n++) assert.equal(await find(n), undefined);
    assert(asked.length <= 2, `${asked.length} requests`);
  }
});

test("of a server that fails, or has an order of its own, nothing follows", async () => {
  const { source } = await treeOf(numbered(5, 3), 20);
  const odd: FlatSource["page"][] = [
    () => Promise.reject(new Error("denied")),
    () => source.page("p/"),
    async (from) => {
      const page = await source.page(from);
      return { ...page, objects: page.objects.toReversed() };
    },
    async (from) => ({ ...(await source.page(from)), prefixes: ["p/d003/"] }),
    async () => ({ objects: [], prefixes: [], nextToken: "more" }),
  ];
  for (const page of odd) {
    const walk = new FlatWalk({ ...source, page }, STAMP);
    assert.equal(await walk.find("d001", NOBODY_KNOWS).page, undefined);
    assert.equal(await walk.find("d002", NOBODY_KNOWS).page, undefined);
  }
});

test("each is as old as the request that it came by", async () => {
  const { source } = await treeOf(numbered(30, 10), 25);
  let changes = 0;
  const walk = new FlatWalk(source, () => ({ sinceMs: changes, changes: ++changes }));
  const find = (name: string) => walk.find(name, NOBODY_KNOWS);
  const [first, second] = [find("d000"), find("d001")];
  await Promise.all([first.page, second.page]);
  assert.equal(first.stamp.changes, 1);
  assert.deepEqual(second.stamp, first.stamp);
  assert.equal(find("d002").stamp.changes, 2, "the first page had only a half of it");
  assert.notEqual(await find("d002").page, undefined);
  walk.end();
  assert.equal(await find("d029").page, undefined);
});

test("S3 that was waited for in vain is not waited for twice, and asked again later", async () => {
  const { source } = await treeOf(numbered(9, 3), 9);
  const away = new Failure("remote", "no answer in time");
  let isAway = true;
  const page: FlatSource["page"] = (from) => (isAway ? Promise.reject(away) : source.page(from));
  const walk = new FlatWalk({ ...source, page }, STAMP);
  const waiting = ["d001", "d002"].map((name) => walk.find(name, NOBODY_KNOWS).page);
  walk.find("d003", NOBODY_KNOWS); // and nobody wants to know
  for (const told of waiting) await assert.rejects(told, away);
  isAway = false;
  assert.equal(await walk.find("d004", NOBODY_KNOWS).page, undefined, "its own LIST will tell");
});

/** Of directories with one file each. */
function pageOf(names: readonly string[], nextToken?: string): ListPage {
  const file = { etag: "", sizeBytes: 0, mtimeMs: 0, archived: false };
  return {
    objects: names.map((name) => ({ key: `p/${name}/f`, ...file })),
    prefixes: [],
    nextToken,
  };
}

test("what an older request tells is not taken for what a newer one would", async () => {
  const [older, newer] = [Promise.withResolvers<ListPage>(), Promise.withResolvers<ListPage>()];
  const answers = [
    Promise.resolve(pageOf(["d0", "d1", "d2"], "more")),
    older.promise,
    newer.promise,
  ];
  let nowMs = 0;
  const source = { prefix: "p/", page: () => answers.shift() ?? Promise.reject(new Error("more")) };
  const walk = new FlatWalk(source, () => ({ sinceMs: nowMs++, changes: 0 }));
  const find = (n: number) => {
    const following = (count: number) =>
      Array.from({ length: count }, (_, ahead) => `d${n + 1 + ahead}`);
    return walk.find(`d${n}`, following);
  };
  await find(0).page;
  await find(1).page;
  assert.equal(answers.length, 0, "both are under way");
  const told = find(5);
  older.resolve(pageOf(["d2", "d3", "d4", "d5", "d6"], "more"));
  newer.reject(new Error("denied"));
  assert.equal(told.stamp.sinceMs, 1);
  assert.equal((await told.page)?.objects[0]?.key, "p/d5/f");
});

test("who goes from the last to the first is no walker", async () => {
  const { source, asked } = await treeOf(numbered(50, 3), 30);
  const walk = new FlatWalk(source, STAMP);
  for (let n = 49; n >= 0; n--) {
    const name = `d0${String(n).padStart(2, "0")}`;
    await walk.find(name, NOBODY_KNOWS).page;
  }
  assert.deepEqual(asked, ["d049/"]);
});
