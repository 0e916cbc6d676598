import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const USER = { pid: 1, owner: "0.1" };
const PARTS_OF_16 = { ...TEST_CONFIG, writePartSizeBytes: 16 };
/** As after an upgrade, or in a larger container. */
const PARTS_OF_32 = { ...TEST_CONFIG, writePartSizeBytes: 32 };
const PARTS_OF_12 = { ...TEST_CONFIG, writePartSizeBytes: 12 };

const turns = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
};

/** Does not come to an end with the first part. */
class SlowStore extends MemoryStore {
  isSlow = true;
  override async uploadPart(...args: Parameters<MemoryStore["uploadPart"]>) {
    const [, , part] = args;
    if (part === 1 && this.isSlow) return new Promise<never>(() => {});
    return super.uploadPart(...args);
  }
}

/** A file in an engine that is killed when it has done what there was to do. */
async function write(store: MemoryStore, content: string, syncs = false) {
  const memory = new TestMemory();
  const { journal, ...rest } = memory.begin();
  const engine = new Engine(store, PARTS_OF_16, { journal, ...rest });
  const { inode, handle } = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, 1);
  engine.acknowledge(handle, "0.1");
  engine.table.count(inode);
  const request = { handle, user: USER, unique: "1.1" };
  await engine.write({ ...request, offsetBytes: 0, data: Buffer.from(content) });
  if (syncs) await engine.sync(handle);
  await turns();
  journal.commit();
  return { handle, memory: memory.copy() };
}

for (const content of ["0123456789abcdef", "0123456789abcdefghijklmnopqrstuv"]) {
  test(`a part that is smaller than parts are now stays a part: ${content.length} bytes`, async () => {
    const store = new SlowStore();
    const { handle, memory } = await write(store, content);
    store.isSlow = false;
    const found = memory.resume();
    const next = new Engine(store, PARTS_OF_32, found);
    const data = Buffer.from("more");
    const request = { handle, user: USER, unique: "1.2" };
    assert.equal(await next.write({ ...request, offsetBytes: content.length, data }), 4);
    await next.flush(handle, USER);
    await next.release(handle);
    assert.equal(store.body("key")?.toString(), `${content}more`);
    assert.equal(store.unfinishedUploads, 0);
    assert.equal(found.spool.usedBytes, 0);
  });
}

test("a synced file that is larger than parts are now begins no upload", async () => {
  const store = new MemoryStore();
  const { handle, memory } = await write(store, "0123456789abcde", true);
  const found = memory.resume();
  const next = new Engine(store, PARTS_OF_12, found);
  await turns();
  assert.equal(store.unfinishedUploads, 0);
  await next.release(handle);
  await next.finish();
  assert.equal(store.body("key")?.toString(), "0123456789abcde");
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(found.spool.usedBytes, 0);
});

test("a synced file that is larger than parts are now can be written on", async () => {
  const store = new MemoryStore();
  const { handle, memory } = await write(store, "0123456789abcde", true);
  const next = new Engine(store, PARTS_OF_12, memory.resume());
  const request = { handle, user: USER, unique: "1.2", offsetBytes: 15, data: Buffer.from("more") };
  assert.equal(await next.write(request), 4);
  await next.flush(handle, USER);
  await next.release(handle);
  assert.equal(store.body("key")?.toString(), "0123456789abcdemore");
  assert.equal(store.unfinishedUploads, 0);
});
