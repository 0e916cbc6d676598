import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { ListQuery } from "../s3/object-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { GatedStore } from "./test-gated-store.ts";
import { TestMemory } from "./test-memory.ts";

const O_RDONLY = 0;
const O_WRONLY_TRUNC = 0o1001;
const CONFIG = { ...TEST_CONFIG, metadataTtlMs: 60_000, revalidatesOpens: true };
const isStale = (error: unknown) => error instanceof Failure && error.kind === "stale";
const turns = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
};

/** Answers lists, or executes deletions, when it is let go. */
class SlowStore extends GatedStore {
  /** Called while the answer to a HEAD is on its way. */
  onHead: (() => void) | undefined;

  override async head(key: string) {
    const found = await super.head(key);
    this.onHead?.();
    return found;
  }

  /** Called while the answer to a PUT is on its way. */
  onPut: (() => void) | undefined;

  override async put(...args: Parameters<GatedStore["put"]>) {
    const stored = await super.put(...args);
    this.onPut?.();
    return stored;
  }

  override async list(query: ListQuery) {
    await this.gate;
    return super.list(query);
  }

  override async delete(key: string) {
    await this.gate;
    return super.delete(key);
  }
}

async function begin(sizeBytes = 3) {
  const store = new SlowStore();
  await store.put("key", Buffer.alloc(sizeBytes, "old"));
  const engine = new Engine(store, CONFIG, new TestMemory().begin());
  const inode = await engine.lookup(ROOT_NODEID, "key");
  assert(inode !== undefined);
  inode.lookups += 1;
  return { store, engine, inode };
}

test("an open is not confirmed by a HEAD that was answered before the object was replaced", async () => {
  const { store, engine, inode } = await begin();
  store.hold();
  inode.validUntilMs = 0;
  const stat = engine.lookup(ROOT_NODEID, "key");
  await turns(); // its HEAD is answered, its LIST is not
  await store.put("key", Buffer.from("new"));
  inode.validUntilMs = 0;
  const found = engine.lookup(ROOT_NODEID, "key");
  store.letGo();
  await Promise.all([stat, found]);
  await assert.rejects(engine.open(inode.nodeid, O_RDONLY, 1), isStale);
});

test("a file that is being deleted is not opened for writing, also after a wait for its reader", async () => {
  const { store, engine, inode } = await begin();
  const reader = await engine.open(inode.nodeid, O_RDONLY, 1);
  const opening = engine.open(inode.nodeid, O_WRONLY_TRUNC, 2);
  const refused = assert.rejects(opening, isStale);
  await turns();
  store.hold();
  const deleting = engine.unlink(ROOT_NODEID, "key", "0.7");
  await turns();
  await engine.release(reader.handle);
  await refused;
  store.letGo();
  await deleting;
  assert.deepEqual(store.keys, []);
});

for (const stays of [true, false]) {
  test(`an open by an old nodeid does not undo the directory that took its name, the object ${stays ? "stays" : "goes"}`, async () => {
    const { store, engine, inode } = await begin(0);
    await store.put("key/below", Buffer.from("x")); // by another client
    if (!stays) await store.delete("key");
    inode.validUntilMs = 0;
    const directory = await engine.lookup(ROOT_NODEID, "key");
    assert.equal(directory?.kind, "directory");
    directory.lookups += 1;
    await assert.rejects(engine.open(inode.nodeid, O_RDONLY, 1), isStale);
    assert(engine.table.current("key") === directory);
  });
}

test("an open that waits for its HEAD does not undo the directory that takes its name", async () => {
  const { store, engine, inode } = await begin(0);
  store.onHead = () => {
    engine.table.bindDirectory("key", engine.table.changes).lookups += 1; // as a listing does
  };
  await engine.open(inode.nodeid, O_RDONLY, 1).catch(() => undefined); // by its lookup, perhaps
  await assert.rejects(engine.open(inode.nodeid, O_RDONLY, 1), isStale);
  assert.equal(engine.table.current("key")?.kind, "directory");
});

test("an open is not confirmed by another thread's lookup: its answer may be older", async () => {
  const { store, engine, inode } = await begin(0);
  inode.validUntilMs = 0;
  store.onHead = () => {
    store.onHead = undefined;
    void store.put("key", Buffer.from("new")); // by another client, while the answer is on its way
  };
  assert(engine.table.current("key") === (await engine.lookup(ROOT_NODEID, "key", 1)));
  await assert.rejects(engine.open(inode.nodeid, O_RDONLY, 2), isStale);
});

test("an open is not confirmed by our upload: another client may have written since", async () => {
  const { store, engine, inode } = await begin();
  const { handle } = await engine.open(inode.nodeid, O_WRONLY_TRUNC, 1);
  await engine.write({ handle, offsetBytes: 0, data: Buffer.from("ours") });
  store.onPut = () => {
    store.onPut = undefined;
    void store.put("key", Buffer.from("theirs")); // while the answer to our PUT is on its way
  };
  await engine.flush(handle, { pid: 1, owner: "0.1" });
  await assert.rejects(engine.open(inode.nodeid, O_RDONLY, 1), isStale);
});

test("a lookup does not take an answer that was on its way before it began", async () => {
  const { store, engine } = await begin();
  store.hold();
  const before = engine.lookup(ROOT_NODEID, "late");
  await turns(); // its HEAD is answered, its LIST is not
  await store.put("late", Buffer.from("x"));
  const [found, again] = [1, 2].map(() => engine.lookup(ROOT_NODEID, "late"));
  store.letGo();
  assert.equal(await before, undefined);
  assert.equal((await found)?.path, "late");
  assert((await found) === (await again));
});

test("a lookup that waits for another one fails with it", async () => {
  const { store, engine } = await begin();
  store.hold();
  store.onHead = () => {
    throw new Failure("remote", "the endpoint is away");
  };
  const lookups = [1, 2].map(() => engine.lookup(ROOT_NODEID, "late"));
  const failed = lookups.map((lookup) => assert.rejects(async () => lookup, /is away/));
  await Promise.all(failed);
  store.onHead = undefined;
  store.letGo();
  assert.equal(await engine.lookup(ROOT_NODEID, "late"), undefined);
});
