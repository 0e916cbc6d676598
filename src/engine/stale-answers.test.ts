import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListQuery } from "../s3/object-store.ts";
import { Engine } from "./engine.ts";
import type { Inode } from "./inode.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { OwnChanges } from "./own-changes.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { GatedStore } from "./test-gated-store.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const PID = 1;

/** Answers tell of the time when they were asked for, and arrive when the test says so. */
class SlowStore extends GatedStore {
  override async head(key: string) {
    const gate = this.gate;
    const found = await super.head(key);
    await gate;
    return found;
  }

  override async list(query: ListQuery) {
    const gate = this.gate;
    const found = await super.list(query);
    await gate;
    return found;
  }
}

async function setUp(...keys: string[]) {
  const store = new SlowStore();
  for (const key of keys) await store.put(key, Buffer.from("old"));
  const engine = new Engine(
    store,
    { ...TEST_CONFIG, metadataTtlMs: 60_000 },
    new TestMemory().begin(),
  );
  const enter = async (parent: number, name: string): Promise<Inode> => {
    const inode = await engine.lookup(parent, name);
    assert(inode !== undefined, `${name} is there`);
    inode.lookups += 1;
    return inode;
  };
  /** A lookup that asks S3 now, whatever is remembered. */
  const lookAnew = async (inode: Inode, parent = ROOT_NODEID) => {
    inode.validUntilMs = 0;
    return engine.lookup(parent, inode.path.slice(inode.path.lastIndexOf("/") + 1));
  };
  const overwrite = async (inode: Inode, content: string) => {
    const { handle } = await engine.open(inode.nodeid, O_WRONLY_TRUNC, PID);
    await engine.write({ handle, offsetBytes: 0, data: Buffer.from(content) });
    await engine.flush(handle, { pid: PID, owner: "0.1" });
    await engine.release(handle);
  };
  const firstItem = async (nodeid: number) => {
    const handle = engine.openDirectory(nodeid);
    const stream = await engine.listDirectory(handle, 0, true);
    const item = stream.item(0);
    assert(item !== undefined);
    return () => stream.enter(item, engine.table);
  };
  return { store, engine, enter, lookAnew, overwrite, firstItem };
}

test("a lookup that began before our delete does not bring the name back", async () => {
  const { store, engine, enter, lookAnew } = await setUp("file");
  const inode = await enter(ROOT_NODEID, "file");
  store.hold();
  const looked = lookAnew(inode);
  await new Promise(setImmediate);
  inode.validUntilMs = Infinity; // so that unlink need not ask
  await engine.unlink(ROOT_NODEID, "file", "0.1");
  store.letGo();
  assert.equal(await looked, undefined);
  assert.equal(engine.table.current("file"), undefined);
});

test("a lookup that began before our upload was complete does not undo it", async () => {
  const { store, engine, enter, lookAnew, overwrite } = await setUp("file");
  const inode = await enter(ROOT_NODEID, "file");
  store.hold();
  const looked = lookAnew(inode);
  await new Promise(setImmediate);
  inode.validUntilMs = Infinity;
  await overwrite(inode, "new content");
  store.letGo();
  assert.equal(await looked, inode);
  assert.equal(engine.table.current("file"), inode);
  assert.equal(inode.sizeBytes, "new content".length);
});

test("a lookup that found nothing does not unbind what was uploaded meanwhile", async () => {
  const { store, engine, enter, lookAnew } = await setUp("dir/one");
  const directory = await enter(ROOT_NODEID, "dir");
  await store.delete("dir/one");
  store.hold();
  const looked = lookAnew(directory);
  await new Promise(setImmediate);
  const { handle } = await engine.create(directory.nodeid, "two", O_WRONLY_TRUNC, PID, true);
  await engine.write({ handle, offsetBytes: 0, data: Buffer.from("x") });
  await engine.flush(handle, { pid: PID, owner: "0.1" });
  await engine.release(handle);
  store.letGo();
  assert.equal(await looked, directory);
});

test("a listing that began before our delete does not bring the name back", async () => {
  const { store, engine, firstItem } = await setUp("file");
  const enterLate = await firstItem(ROOT_NODEID);
  await engine.unlink(ROOT_NODEID, "file", "0.1");
  assert.equal(enterLate(), "gone");
  assert.equal(engine.table.current("file"), undefined);
  await store.put("file", Buffer.from("theirs"));
  assert.equal((await engine.lookup(ROOT_NODEID, "file"))?.kind, "file", "put there by others");
});

for (const what of ["delete", "upload"] as const) {
  test(`the last key of a page does not undo our ${what} after the page was asked for`, async () => {
    const names = Array.from({ length: 1001 }, (_, n) => `f${String(n).padStart(4, "0")}`);
    const { store, engine, enter, overwrite } = await setUp(...names);
    const inode = await enter(ROOT_NODEID, "f0999");
    inode.validUntilMs = 120_000 + performance.now(); // so that unlink need not ask
    store.hold();
    const handle = engine.openDirectory(ROOT_NODEID);
    const listed = engine.listDirectory(handle, 999, true);
    await new Promise(setImmediate);
    if (what === "delete") await engine.unlink(ROOT_NODEID, "f0999", "0.1");
    else await overwrite(inode, "new content");
    inode.validUntilMs = 0;
    store.letGo(); // the next page is asked for from now on
    const stream = await listed;
    const item = stream.item(999);
    assert.equal(item?.name, "f0999");
    assert.equal(stream.enter(item, engine.table), what === "delete" ? "gone" : inode);
  });
}

test("a listing that began before rmdir does not bring the directory back", async () => {
  const { store, engine, enter, firstItem } = await setUp("dir/file");
  const directory = await enter(ROOT_NODEID, "dir");
  const enterLate = await firstItem(ROOT_NODEID);
  await engine.unlink(directory.nodeid, "file", "0.1");
  assert.equal(enterLate(), directory, "it is still there by its name");
  await engine.removeDirectory(ROOT_NODEID, "dir", "0.2");
  assert.equal(enterLate(), "gone");
  assert.equal(await engine.lookup(ROOT_NODEID, "dir"), undefined);
  assert.deepEqual(store.keys, []);
});

test("an old listing does not replace what was uploaded, known or forgotten", async () => {
  const { engine, enter, overwrite, firstItem } = await setUp("file");
  const inode = await enter(ROOT_NODEID, "file");
  const enterLate = await firstItem(ROOT_NODEID);
  await overwrite(inode, "new content");
  assert.equal(enterLate(), inode);
  engine.table.forget(inode.nodeid, 1);
  assert.equal(enterLate(), "unknown", "the kernel has to ask for it");
});

test("an old answer does not end a directory that was emptied after it", async () => {
  const { store, engine, enter, lookAnew } = await setUp("dir/file");
  const directory = await enter(ROOT_NODEID, "dir");
  await enter(directory.nodeid, "file");
  store.hold();
  const looked = lookAnew(directory);
  await new Promise(setImmediate);
  await engine.unlink(directory.nodeid, "file", "0.1");
  store.letGo();
  assert.equal(await looked, directory);
  assert.equal(await lookAnew(directory), directory, "found although S3 has no key");
  await engine.removeDirectory(ROOT_NODEID, "dir", "0.2");
  assert.equal(await engine.lookup(ROOT_NODEID, "dir"), undefined);
});

test("changes too old to be remembered are neither denied nor made up", () => {
  const own = new OwnChanges();
  const since = own.count;
  own.add("a/first", "removed");
  assert.equal(own.of("a/first", since), "removed");
  assert.equal(own.of("a/first", own.count), undefined);
  assert(own.below("a", since) && !own.below("a", own.count) && !own.below("b", since));
  for (let n = 0; n < 5000; n++) own.add(`b/${n}`, "uploaded");
  assert.equal(own.of("a/first", since), "unknown");
  assert.equal(own.of("never/changed", since), "unknown");
  assert.equal(own.of("never/changed", own.count), undefined);
  assert.equal(own.of("b/4999", since), "uploaded");
  assert(own.below("c", since) && !own.below("c", own.count));
});
