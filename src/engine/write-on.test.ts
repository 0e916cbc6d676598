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
const USER = { pid: PID, owner: "0.1" };
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

async function begin(store: MemoryStore, config = TEST_CONFIG) {
  const engine = new Engine(store, config, new TestMemory().begin());
  const { inode, handle } = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, PID);
  engine.table.count(inode);
  await engine.write({ handle, offsetBytes: 0, data: Buffer.from("safe"), user: USER });
  const writeOn = async (leaving?: AbortSignal) =>
    engine.write({ handle, offsetBytes: 4, data: Buffer.from(", and more"), leaving });
  return { engine, inode, handle, writeOn };
}

/** A writer that leaves while its write waits for the PUT of an fsync. */
async function leaveWhileSyncing() {
  const store = new SlowStore();
  const scene = await begin(store);
  const synced = scene.engine.sync(scene.handle);
  const leaving = new AbortController();
  const writing = scene.writeOn(leaving.signal);
  leaving.abort();
  await assert.rejects(writing, codeIs("EINTR"));
  return { ...scene, store, synced };
}

test("a writer that waits for an fsync can leave: nothing of it is taken, nothing is lost", async () => {
  const { store, engine, handle, writeOn, synced } = await leaveWhileSyncing();
  store.letGo.resolve();
  await synced;
  assert.equal(store.body("key")?.toString(), "safe");
  assert.equal(await writeOn(), 10);
  await engine.flush(handle, USER);
  assert.equal(store.body("key")?.toString(), "safe, and more");
  await engine.release(handle);
});

const ENDS: Readonly<Record<string, (engine: Engine, handle: number) => Promise<void>>> = {
  close: (engine, handle) => engine.flush(handle, USER),
  fsync: (engine, handle) => engine.sync(handle),
};
for (const [name, end] of Object.entries(ENDS)) {
  for (const isSynced of [false, true]) {
    const when = isSynced ? "after" : "during";
    test(`${name} ${when} the fsync reports a write that was left, and what was synced stays`, async () => {
      const { store, engine, handle, writeOn, synced } = await leaveWhileSyncing();
      if (isSynced) store.letGo.resolve();
      if (isSynced) await synced;
      await assert.rejects(end(engine, handle), codeIs("EIO"), "it does not wait for S3 either");
      store.letGo.resolve();
      await synced;
      await assert.rejects(writeOn(), codeIs("EIO"), "the file has failed");
      await assert.rejects(engine.release(handle), codeIs("EIO"));
      assert.equal(store.body("key")?.toString(), "safe");
    });
  }
}

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
  await assert.rejects(engine.release(handle), codeIs("EIO"), "the write that failed is reported");
  assert.equal(store.body("key")?.toString(), "safe");
});

test("a file that was deleted or replaced since its fsync can't be written on: what came after it stays", async () => {
  for (const config of [TEST_CONFIG, { ...TEST_CONFIG, allowOverwrite: false }]) {
    const store = new MemoryStore();
    const { engine, handle, writeOn } = await begin(store, config);
    await engine.sync(handle);
    await engine.unlink(ROOT_NODEID, "key", "0.7");
    await assert.rejects(writeOn(), codeIs("EIO"), "deleted");
    await assert.rejects(engine.flush(handle, USER), codeIs("EIO"), "close tells it as well");
    assert.deepEqual(store.keys, []);
    const made = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, PID);
    await engine.write({ handle: made.handle, offsetBytes: 0, data: Buffer.from("new") });
    await engine.sync(made.handle);
    await assert.rejects(engine.release(handle), codeIs("EIO"));
    assert.equal(store.body("key")?.toString(), "new");
  }
});

test("a file that another handle has written anew can't be written on", async () => {
  const store = new MemoryStore();
  const { engine, inode, handle, writeOn } = await begin(store);
  await engine.sync(handle);
  const other = await engine.open(inode.nodeid, O_WRONLY_TRUNC, PID);
  await engine.write({
    handle: other.handle,
    offsetBytes: 0,
    data: Buffer.from("new"),
    user: USER,
  });
  await engine.flush(other.handle, USER);
  await assert.rejects(writeOn(), codeIs("EIO"));
  await engine.release(other.handle);
  await assert.rejects(engine.release(handle), codeIs("EIO"));
  assert.equal(store.body("key")?.toString(), "new");
});

test("an empty file is uploaded by fsync before it returns, and not by the close that follows open", async () => {
  const store = new MemoryStore();
  const engine = new Engine(store, TEST_CONFIG, new TestMemory().begin());
  const { handle } = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, PID);
  await engine.flush(handle, USER); // a shell closes the descriptor that it has duplicated
  assert.deepEqual(store.keys, []);
  await engine.sync(handle);
  assert.equal(store.body("key")?.length, 0);
  await engine.release(handle);
});
