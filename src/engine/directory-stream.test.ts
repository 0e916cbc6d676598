import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { MemoryStore } from "../s3/memory-store.ts";
import { DirectoryStream } from "./directory-stream.ts";
import type { DirectorySource } from "./directory-stream.ts";
import { isVisibleName } from "./file-name.ts";
import { Inode } from "./inode.ts";
import type { AskedPage } from "./page-sequence.ts";

const nameAt = (index: number) => `f${String(index).padStart(6, "0")}`;
const object = { etag: "", sizeBytes: 1, mtimeMs: 0, archived: false };

async function namesOf(stream: DirectoryStream): Promise<string[]> {
  const names: string[] = [];
  for (;;) {
    await stream.load(names.length);
    const item = stream.item(names.length);
    if (item === undefined) return names;
    names.push(item.kind === "directory" ? `${item.name}/` : item.name);
  }
}

function streamOf(store: MemoryStore, locals: readonly Inode[], keysMax: number): DirectoryStream {
  return new DirectoryStream({
    path: "d",
    prefix: "d/",
    locals,
    ttlMs: 0,
    async page(continuationToken, startAfter) {
      const query = { prefix: "d/", delimiter: "/", keysMax } as const;
      return { ...(await store.list({ ...query, continuationToken, startAfter })), since: 0 };
    },
    async hasKeysUnder(name) {
      const query = { delimiter: "", keysMax: 1, continuationToken: undefined } as const;
      return (await store.list({ ...query, prefix: `d/${name}/` })).objects.length > 0;
    },
  });
}

/** The root of a bucket that nothing was written to from here. */
function rootOf(page: DirectorySource["page"]): DirectoryStream {
  return new DirectoryStream({
    path: "",
    prefix: "",
    locals: [],
    ttlMs: 0,
    page,
    hasKeysUnder: async () => false,
  });
}

/** All at once, from the definition: what a directory has and hides. */
function expected(keys: Iterable<string>, locals: ReadonlyMap<string, "file" | "directory">) {
  const kinds = new Map<string, { kind: "file" | "directory"; sortsAs: string }>();
  for (const [name, kind] of locals) kinds.set(name, { kind, sortsAs: `${name}/` });
  const rests = [...keys].map((key) => key.slice(2));
  for (const rest of rests.filter((one) => !one.includes("/"))) {
    kinds.set(rest, { kind: "file", sortsAs: rest });
  }
  for (const rest of rests.filter((one) => one.includes("/"))) {
    const name = rest.slice(0, rest.indexOf("/"));
    kinds.set(name, { kind: "directory", sortsAs: `${name}/` });
  }
  return [...kinds]
    .filter(([name]) => isVisibleName(name))
    .toSorted(([, left], [, right]) => (left.sortsAs < right.sortsAs ? -1 : 1))
    .map(([name, { kind }]) => (kind === "directory" ? `${name}/` : name));
}

const name = fc
  .array(fc.constantFrom("a", "-", "/", ".", "0"), { minLength: 1, maxLength: 4 })
  .map((letters) => letters.join(""));
const localName = fc.constantFrom("a", "a-", "0", "b", "-");

test("in pages of any size, a directory has each name once, in order, and hides what it must", async () => {
  const property = fc.asyncProperty(
    fc.uniqueArray(name, { maxLength: 12 }),
    fc.dictionary(localName, fc.constantFrom("file" as const, "directory" as const)),
    fc.integer({ min: 1, max: 5 }),
    async (names, localKinds, keysMax) => {
      const store = new MemoryStore();
      for (const one of names) await store.put(`d/${one}`, Buffer.alloc(1));
      const locals = new Map(Object.entries(localKinds));
      const inodes = [...locals].map(([one, kind], index) => new Inode(index, `d/${one}`, kind));
      const stream = streamOf(store, inodes, keysMax);
      assert.deepEqual(await namesOf(stream), expected(store.keys, locals));
    },
  );
  await fc.assert(property, { numRuns: 1000 });
});

test("100,000 entries are never in memory at once", async () => {
  let loadedMax = 0;
  let pages = 0;
  const stream = new DirectoryStream({
    path: "",
    prefix: "",
    locals: [new Inode(7, "f050000x", "directory")],
    ttlMs: 0,
    async page(token, after): Promise<AskedPage> {
      pages += 1;
      const from = Number(token ?? (after === undefined ? 0 : Number(after.slice(1)) + 1));
      const objects = Array.from({ length: 1000 }, (_, n) => ({
        ...object,
        key: nameAt(from + n),
      }));
      const nextToken = from < 99_000 ? String(from + 1000) : undefined;
      return { objects, prefixes: [], nextToken, since: 0 };
    },
    hasKeysUnder: async () => assert.fail("there is no such name"),
  });
  for (let index = 0; ; index++) {
    await stream.load(index);
    loadedMax = Math.max(loadedMax, stream.loadedCount);
    const item = stream.item(index);
    if (item === undefined) {
      assert.equal(index, 100_001);
      break;
    }
    const local = index === 50_001;
    assert.equal(item.name, local ? "f050000x" : nameAt(index > 50_001 ? index - 1 : index));
  }
  assert.equal(pages, 102, "and two that were guessed at the end");
  assert(loadedMax <= 4_000, `${loadedMax} items at once`);
  assert(!stream.reaches(0), "what was passed is let go");
});

test("a page that fails is asked for again, and nothing is lost or doubled", async () => {
  let calls = 0;
  const keys = ["a", "b", "c", "d"];
  const stream = rootOf(async (token) => {
    if (++calls % 2 === 0) throw new Error("not now");
    const from = Number(token ?? 0);
    const nextToken = from < 3 ? String(from + 1) : undefined;
    return { objects: [{ ...object, key: keys[from] ?? "" }], prefixes: [], nextToken, since: 0 };
  });
  const names: string[] = [];
  while (names.length < keys.length) {
    try {
      await stream.load(names.length);
    } catch {
      continue;
    }
    names.push(stream.item(names.length)?.name ?? "");
  }
  assert.deepEqual(names, keys);
});

test("a page that failed before anybody waited for it is asked for again", async () => {
  const first = Array.from({ length: 2000 }, (_, n) => ({ ...object, key: nameAt(n) })); // all ahead
  const asked: (string | undefined)[] = [];
  const stream = rootOf(async (token) => {
    asked.push(token);
    if (asked.length === 2) throw new Error("not now");
    const since = 0;
    if (token === undefined) return { objects: first, prefixes: ["g/"], nextToken: "more", since };
    return { objects: [{ ...object, key: "h" }], prefixes: [], nextToken: undefined, since };
  });
  await stream.load(0);
  await new Promise(setImmediate);
  await stream.load(2001);
  assert.equal(stream.item(2001)?.name, "h");
  assert.deepEqual(asked, [undefined, "more", "more"]);
});
