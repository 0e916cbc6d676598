import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const USER = { pid: 1, owner: "a.1" };
/** More than may be on its way to S3, beside the part that is being filled. */
const BODY = Buffer.alloc(20 * TEST_CONFIG.writePartSizeBytes, "new");

const codeIs = (code: string) => (error: unknown) =>
  error instanceof PosixFailure && error.code === code;

/** Takes no part until it is let go. */
class HaltedStore extends MemoryStore {
  readonly go = Promise.withResolvers<void>();

  override async uploadPart(...args: Parameters<MemoryStore["uploadPart"]>) {
    await this.go.promise;
    return super.uploadPart(...args);
  }
}

class Scene {
  readonly store = new HaltedStore();
  readonly #memory = new TestMemory();
  engine = new Engine(this.store, TEST_CONFIG, this.#memory.begin());
  handle = 0;

  /** An object of another program, and a file that is to replace it. */
  async open(): Promise<void> {
    await this.store.put("key", Buffer.from("old"));
    const inode = await this.engine.lookup(ROOT_NODEID, "key");
    assert(inode !== undefined);
    this.engine.table.count(inode);
    const opened = await this.engine.open(inode.nodeid, O_WRONLY_TRUNC, USER.pid);
    this.handle = opened.handle;
    this.engine.acknowledge(this.handle, "0.1");
  }

  /** The bytes taken before the signal. */
  async writeUntilSignal(offsetBytes: number): Promise<number> {
    const leaving = AbortSignal.abort();
    const data = BODY.subarray(offsetBytes);
    return this.engine.write({ handle: this.handle, offsetBytes, data, leaving, user: USER });
  }

  crash(): void {
    this.engine = new Engine(this.store, TEST_CONFIG, this.#memory.copy().resume());
  }

  async checkOldIsLeft(): Promise<void> {
    await this.engine.finish();
    assert.equal(String(this.store.body("key")), "old");
    assert.equal(this.store.unfinishedUploads, 0);
  }
}

async function cutOff(): Promise<Scene> {
  const scene = new Scene();
  await scene.open();
  const taken = await scene.writeUntilSignal(0);
  assert(taken > 0 && taken < BODY.length);
  await assert.rejects(scene.writeUntilSignal(taken), codeIs("EINTR"));
  return scene;
}

test("a file whose writer is killed while it waits is not published", async () => {
  const scene = await cutOff();
  await assert.rejects(scene.engine.flush(scene.handle, USER), codeIs("EIO"));
  scene.store.go.resolve();
  await assert.rejects(scene.engine.release(scene.handle), codeIs("EIO"));
  await scene.checkOldIsLeft();
});

test("nor when its engine dies before the close", async () => {
  const scene = await cutOff();
  scene.crash();
  scene.store.go.resolve();
  await assert.rejects(scene.engine.flush(scene.handle, USER), codeIs("EIO"));
  await assert.rejects(scene.engine.release(scene.handle), codeIs("EIO"));
  await scene.checkOldIsLeft();
});

test("nor by fsync: that reports the lost bytes, too", async () => {
  const scene = await cutOff();
  scene.store.go.resolve();
  await assert.rejects(scene.engine.sync(scene.handle), codeIs("EIO"));
  await assert.rejects(scene.engine.flush(scene.handle, USER), codeIs("EIO"));
  await assert.rejects(scene.engine.release(scene.handle), codeIs("EIO"));
  await scene.checkOldIsLeft();
});

test("nor when another process had the file open last", async () => {
  const scene = await cutOff();
  scene.store.go.resolve();
  await assert.rejects(scene.engine.release(scene.handle), codeIs("EIO"));
  await scene.checkOldIsLeft();
});

test("a writer that goes on after the signal completes its file", async () => {
  const scene = new Scene();
  await scene.open();
  const { handle } = scene;
  const taken = await scene.writeUntilSignal(0);
  scene.store.go.resolve();
  scene.crash(); // the next engine knows that the file was cut off, and then that it was not
  const data = BODY.subarray(taken);
  assert.equal(
    await scene.engine.write({ handle, offsetBytes: taken, data, user: USER }),
    data.length,
  );
  await scene.engine.flush(handle, USER);
  await scene.engine.release(handle);
  await scene.engine.finish();
  assert(scene.store.body("key")?.equals(BODY));
});

/** The engine takes so much before it waits for S3: the last part is full and not sent. */
const TAKEN_BYTES = 9 * TEST_CONFIG.writePartSizeBytes;

/** A signal comes to a write that waits for S3 although all its bytes are taken. */
async function takenWhole() {
  const scene = new Scene();
  await scene.open();
  const { handle } = scene;
  const leaving = new AbortController();
  const data = BODY.subarray(0, TAKEN_BYTES);
  const written = scene.engine.write({
    handle,
    offsetBytes: 0,
    data,
    user: USER,
    leaving: leaving.signal,
  });
  leaving.abort();
  assert.equal(await written, data.length);
  return scene;
}

test("close reports no signal that came to a write which was taken whole", async () => {
  const { engine, handle, store } = await takenWhole();
  const closed = engine.flush(handle, USER);
  store.go.resolve();
  await closed;
  await engine.release(handle);
  assert.equal(store.body("key")?.length, TAKEN_BYTES);
});

test("close reports no signal that came to a write before a successful fsync", async () => {
  const { engine, handle, store } = await takenWhole();
  store.go.resolve();
  await engine.sync(handle);
  await engine.flush(handle, USER);
  await engine.release(handle);
  assert.equal(store.body("key")?.length, TAKEN_BYTES);
});

test("the close of a killed writer does not wait for ever, and its file becomes the object", async () => {
  const { engine, handle, store } = await takenWhole();
  await assert.rejects(engine.flush(handle, USER), codeIs("EINTR"));
  const released = engine.release(handle);
  store.go.resolve();
  await released;
  assert.equal(store.body("key")?.length, TAKEN_BYTES);
});
