import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const PID = 1;
const NEVER = new Promise<never>(() => {});
const turns = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
};

const isEio = (error: unknown) => error instanceof PosixFailure && error.code === "EIO";

/** Does what it is told and does not answer, for as long as the engine that asked may live. */
class SilentStore extends MemoryStore {
  silent = false;
  override async put(key: string, body: Uint8Array, nonce?: string) {
    const done = await super.put(key, body, nonce);
    return this.silent ? NEVER : done;
  }
  override async completeUpload(...args: Parameters<MemoryStore["completeUpload"]>) {
    const done = await super.completeUpload(...args);
    return this.silent ? NEVER : done;
  }
}

async function begin(store: MemoryStore, memory: TestMemory, name: string, content: string) {
  const { journal, ...rest } = memory.begin();
  const engine = new Engine(store, TEST_CONFIG, { journal, ...rest });
  const handle = await create(engine, name);
  await write(engine, handle, 0, content);
  journal.commit();
  return { engine, handle, journal };
}

async function write(engine: Engine, handle: number, offsetBytes: number, text: string) {
  return engine.write({ handle, offsetBytes, data: Buffer.from(text) });
}

/** As the file system does: counted, and acknowledged. */
async function create(engine: Engine, name: string): Promise<number> {
  const { inode, handle } = await engine.create(ROOT_NODEID, name, O_WRONLY_TRUNC, PID);
  engine.acknowledge(handle, "0.1");
  engine.table.count(inode);
  return handle;
}

/** Its fsync(2) has reached S3 when the engine dies. */
async function diesInSync(content: string) {
  const store = new SilentStore();
  const memory = new TestMemory();
  const { engine, handle } = await begin(store, memory, "key", content);
  store.silent = true;
  void engine.sync(handle);
  await turns();
  assert.equal(store.body("key")?.toString(), content);
  store.silent = false;
  const next = new Engine(store, TEST_CONFIG, memory.copy().resume());
  return { store, handle, next };
}

test("a PUT whose answer was lost does not hide what is written after it", async () => {
  const { store, handle, next } = await diesInSync("0123456789");
  assert.equal(await write(next, handle, 10, "more"), 4);
  await next.release(handle);
  assert.equal(store.body("key")?.toString(), "0123456789more");
});

test("after a completion whose answer was lost nothing more is taken", async () => {
  const content = "0123456789012345678901234567890123456789";
  const { store, handle, next } = await diesInSync(content);
  const late = async () => write(next, handle, content.length, "more");
  await assert.rejects(late, isEio);
  await assert.rejects(next.release(handle), isEio);
  assert.equal(store.body("key")?.toString(), content);
  assert.equal(store.unfinishedUploads, 0);
});

test("an end that had begun comes to its end, also when nobody asks for it again", async () => {
  const { handle, next } = await diesInSync("0123456789");
  await turns();
  const inode = await next.lookup(ROOT_NODEID, "key");
  assert.equal(inode?.upload, undefined);
  assert.equal(inode?.local, false);
  await next.release(handle);
});

/** Has no place for one of its keys, and says so when the next part has begun. */
class PartialStore extends MemoryStore {
  override async uploadPart(...args: Parameters<MemoryStore["uploadPart"]>) {
    if (args[0] !== "bad") return super.uploadPart(...args);
    await new Promise(setImmediate);
    throw new Failure("remote", "no place");
  }
}

test("the places of an upload that has failed are for others, also for the next engine", async () => {
  const store = new PartialStore();
  const memory = new TestMemory();
  const { engine, handle: bad, journal } = await begin(store, memory, "bad", "0123456789012345678");
  await turns();
  const good = await create(engine, "good");
  await write(engine, good, 0, "01234567890123456789");
  await turns();
  await write(engine, good, 20, "0123");
  journal.commit();
  const found = memory.copy().resume();
  const next = new Engine(store, TEST_CONFIG, found);
  await assert.rejects(next.release(bad), /no place/);
  await next.release(good);
  assert.equal(store.body("good")?.toString(), "012345678901234567890123");
  assert.deepEqual(store.keys, ["good"]);
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(found.spool.usedBytes, 0);
});

test("an object that was synced can be read in the next engine, though a later write failed", async () => {
  const store = new MemoryStore();
  const memory = new TestMemory();
  const content = "0123456789".repeat(4);
  const { engine, handle } = await begin(store, memory, "key", content);
  await engine.sync(handle);
  await assert.rejects(async () => write(engine, handle, content.length, "more"), isEio);
  const next = new Engine(store, TEST_CONFIG, memory.copy().resume());
  const inode = await next.lookup(ROOT_NODEID, "key");
  assert(inode !== undefined);
  const reader = await next.open(inode.nodeid, 0, PID);
  await next.release(reader.handle);
  await assert.rejects(next.release(handle), isEio);
  assert.equal(store.body("key")?.toString(), content);
});
