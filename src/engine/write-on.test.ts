import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_RDONLY = 0;
const O_WRONLY_TRUNC = 0o1001;
const PID = 1;
const codeIs = (code: string) => (error: unknown) =>
  error instanceof PosixFailure && error.code === code;

/** Takes its time with a PUT, until it is let go. */
class SlowStore extends MemoryStore {
  readonly letGo = Promise.withResolvers<void>();
  override async put(key: string, body: Uint8Array, nonce?: string) {
    await this.letGo.promise;
    return super.put(key, body, nonce);
  }
}

async function begin(store: MemoryStore) {
  const engine = new Engine(store, TEST_CONFIG, new TestMemory().begin());
  const { inode, handle } = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, PID);
  engine.table.count(inode);
  await engine.write(handle, 0, Buffer.from("safe"));
  const writeOn = async (leaving?: AbortSignal) =>
    engine.write(handle, 4, Buffer.from(", and more"), false, leaving);
  return { engine, inode, handle, writeOn };
}

test("a writer that waits for an fsync can leave: nothing of it is taken, nothing is lost", async () => {
  const store = new SlowStore();
  const { engine, handle, writeOn } = await begin(store);
  const synced = engine.sync(handle);
  const leaving = new AbortController();
  const writing = writeOn(leaving.signal);
  leaving.abort();
  await assert.rejects(writing, codeIs("EINTR"));
  await assert.rejects(engine.flush(handle, PID), codeIs("EINTR"), "nor does its exit wait");
  store.letGo.resolve();
  await synced;
  assert.equal(store.body("key")?.toString(), "safe");
  assert.equal(await writeOn(), 10);
  await engine.flush(handle, PID);
  assert.equal(store.body("key")?.toString(), "safe, and more");
  await engine.release(handle);
});

test("a file may be written on that was read since its fsync, though the kernel tells late", async () => {
  const store = new MemoryStore();
  const { engine, inode, handle, writeOn } = await begin(store);
  await engine.sync(handle);
  const readers = [
    await engine.open(inode.nodeid, O_RDONLY, PID),
    await engine.open(inode.nodeid, O_RDONLY, PID),
  ];
  const writing = writeOn();
  for (const reader of readers) {
    await new Promise(setImmediate);
    await engine.release(reader.handle);
  }
  assert.equal(await writing, 10);
  await engine.release(handle);
  assert.equal(store.body("key")?.toString(), "safe, and more");
});

test("not while somebody reads it: then the object stays as it was synced", async () => {
  const store = new MemoryStore();
  const { engine, inode, handle, writeOn } = await begin(store);
  await engine.sync(handle);
  const reader = await engine.open(inode.nodeid, O_RDONLY, PID);
  await assert.rejects(writeOn(AbortSignal.abort()), codeIs("EINTR"));
  await assert.rejects(writeOn(), codeIs("EIO"));
  await engine.release(reader.handle);
  await engine.release(handle);
  assert.equal(store.body("key")?.toString(), "safe");
});
