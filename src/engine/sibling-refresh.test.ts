import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore } from "../s3/memory-store.ts";
import type { ListQuery } from "../s3/object-store.ts";
import { Engine } from "./engine.ts";
import type { Inode } from "./inode.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const FILES = 100;

class CountingStore extends MemoryStore {
  requests = 0;

  override head(key: string) {
    this.requests += 1;
    return super.head(key);
  }

  override list(query: ListQuery) {
    this.requests += 1;
    return super.list(query);
  }
}

/** A hundred files that the kernel knows, all expired. */
async function known() {
  const store = new CountingStore();
  for (let n = 0; n < FILES; n++) await store.put(`f${n}`, Buffer.from(`body ${n}`));
  const engine = new Engine(
    store,
    { ...TEST_CONFIG, metadataTtlMs: 3_600_000 },
    new TestMemory().begin(),
  );
  const look = async (n: number) => (await engine.lookup(ROOT_NODEID, `f${n}`)) as Inode;
  const inodes: Inode[] = [];
  for (let n = 0; n < FILES; n++) {
    const inode = await look(n);
    inode.lookups += 1;
    inode.validUntilMs = 0;
    inodes.push(inode);
  }
  store.requests = 0;
  return { store, engine, look, inodes };
}

test("a directory whose files are all looked at again is listed once", async () => {
  const { store, look, inodes } = await known();
  for (let n = 0; n < FILES; n++) assert.equal(await look(n), inodes[n]);
  assert(store.requests < FILES, `${store.requests} requests`);
});

test("what has changed, gone or become a directory meanwhile is seen as it is", async () => {
  const { store, engine, look, inodes } = await known();
  await store.put("f50", Buffer.from("another body"));
  await store.delete("f51");
  await store.put("f52/below", Buffer.alloc(1));
  const seen: unknown[] = [];
  for (let n = 0; n < FILES; n++) seen.push(await look(n));
  const changed = seen[50] as Inode;
  assert(changed !== inodes[50] && changed.sizeBytes === 12);
  assert.equal(seen[51], undefined);
  assert.equal((seen[52] as Inode).kind, "directory");
  assert.equal(engine.table.current("f53"), inodes[53]);
});

test("lookups at the same time share the listing", async () => {
  const { store, look, inodes } = await known();
  const all = await Promise.all(inodes.map((_, n) => look(n)));
  assert.deepEqual(all, inodes);
  assert(store.requests < FILES, `${store.requests} requests`);
});
