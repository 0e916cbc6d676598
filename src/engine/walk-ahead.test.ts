import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import type { ListQuery } from "../s3/object-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const DIRECTORIES = 10;

class ListingStore extends MemoryStore {
  /** One directory each, and `behind ...` for all of them behind a key. */
  readonly listed: string[] = [];
  /** The answer to requests for more than one directory. */
  outage: Promise<never> | undefined;
  override async list(query: ListQuery) {
    if (query.delimiter === "/") this.listed.push(query.prefix);
    else if (query.keysMax > 1) this.listed.push(`behind ${query.startAfter}`);
    if (query.delimiter !== "/" && this.outage !== undefined) return this.outage;
    return super.list(query);
  }
}

async function tree(metadataTtlMs = 3_600_000, content = ["file"]) {
  const store = new ListingStore();
  for (let n = 0; n < DIRECTORIES; n++) {
    for (const name of content) await store.put(`d${n}/${name}`, Buffer.from("x"));
  }
  const engine = new Engine(store, { ...TEST_CONFIG, metadataTtlMs }, new TestMemory().begin());
  const names = async (nodeid: number) => {
    const handle = engine.openDirectory(nodeid);
    const found: string[] = [];
    for (let index = 0; ; index++) {
      const stream = await engine.listDirectory(handle, index, index === 0);
      const item = stream.item(index);
      if (item === undefined) break;
      found.push(item.name);
      const inode = stream.enter(item, engine.table);
      if (typeof inode !== "string") engine.table.count(inode);
    }
    engine.releaseDirectory(handle);
    return found;
  };
  const nodeidOf = (path: string) => engine.table.current(path)?.nodeid ?? 0;
  await names(ROOT_NODEID);
  store.listed.length = 0;
  return { engine, names, nodeidOf, store };
}

test("a walk is listed ahead of the walker, each directory once", async () => {
  const { names, nodeidOf, store } = await tree(undefined, ["directory/file"]);
  assert.deepEqual(await names(nodeidOf("d0")), ["directory"]);
  assert.deepEqual(store.listed, ["d0/"], "one directory is no walk");
  assert.deepEqual(await names(nodeidOf("d1")), ["directory"]);
  assert.deepEqual(store.listed, ["d0/", "d1/", "d2/", "d3/", "d4/"]);
  for (let n = 2; n < DIRECTORIES; n++) {
    assert.deepEqual(await names(nodeidOf(`d${n}`)), ["directory"]);
  }
  assert.equal(store.listed.length, DIRECTORIES);
});

test("small directories are listed by one request, in each walk", async () => {
  const { engine, names, nodeidOf, store } = await tree();
  for (let walks = 0; walks < 2; walks++) {
    store.listed.length = 0;
    for (let n = 0; n < DIRECTORIES; n++) {
      assert.deepEqual(await names(nodeidOf(`d${n}`)), ["file"]);
      assert.equal(engine.table.current(`d${n}/file`)?.object?.sizeBytes, 1);
    }
    assert.deepEqual(store.listed, ["d0/", "d1/", "behind d2/"]);
  }
});

test("so they are when two walkers go through two directories in turns", async () => {
  const { names, nodeidOf, store } = await tree(undefined, ["x/file", "y/file", "z/file"]);
  for (const parent of ["d0", "d1"]) await names(nodeidOf(parent));
  store.listed.length = 0;
  for (const name of ["x", "y", "z"]) {
    for (const parent of ["d0", "d1"]) {
      assert.deepEqual(await names(nodeidOf(`${parent}/${name}`)), ["file"]);
    }
  }
  const flat = ["behind d0/z/", "behind d1/z/"];
  assert.deepEqual(store.listed, ["d0/x/", "d1/x/", "d0/y/", flat[0], "d1/y/", flat[1]]);
});

test("what changed here since then is seen, and nothing is old where nothing may be", async () => {
  const { engine, names, nodeidOf, store } = await tree();
  await names(nodeidOf("d0"));
  await names(nodeidOf("d1"));
  await engine.makeDirectory(nodeidOf("d2"), "new");
  assert.deepEqual(await names(nodeidOf("d2")), ["file", "new"]);
  assert.deepEqual(await names(nodeidOf("d3")), ["file"]);
  assert.deepEqual(store.listed, ["d0/", "d1/", "behind d2/", "d2/", "d5/", "d3/", "d6/"]);
  const minimal = await tree(0);
  for (let n = 0; n < 3; n++) await minimal.names(minimal.nodeidOf(`d${n}`));
  assert.deepEqual(minimal.store.listed, ["d0/", "d1/", "d2/"]);
});

test("in an outage a walker waits for one request, and is served when it comes again", async () => {
  const { names, nodeidOf, store } = await tree();
  const { promise, reject } = Promise.withResolvers<never>();
  store.outage = promise;
  await names(nodeidOf("d0"));
  await names(nodeidOf("d1"));
  const opening = names(nodeidOf("d2"));
  reject(new Failure("remote", "no answer in time"));
  await assert.rejects(opening, /no answer in time/);
  assert.deepEqual(store.listed, ["d0/", "d1/", "behind d2/"]);
  assert.deepEqual(await names(nodeidOf("d2")), ["file"]);
  assert.deepEqual(store.listed.slice(3), ["d2/"]);
});
