import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { KeyTooLongFailure } from "../s3/s3-error.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const PID = 1;
const USER = { pid: PID, owner: "a.1" };

const codeIs = (code: string) => (error: unknown) =>
  error instanceof PosixFailure && error.code === code;

const isDenied = (error: unknown) => error instanceof Failure && error.kind === "denied";

/** Takes no part until it is let go. */
class HaltedStore extends MemoryStore {
  readonly go = Promise.withResolvers<void>();

  override async uploadPart(...args: Parameters<MemoryStore["uploadPart"]>) {
    await this.go.promise;
    return super.uploadPart(...args);
  }
}

class Mount {
  readonly store: MemoryStore;
  readonly memory: TestMemory;
  engine: Engine;
  #unique = 0;

  constructor(store = new MemoryStore(), memory = new TestMemory(), config = TEST_CONFIG) {
    this.store = store;
    this.memory = memory;
    this.engine = new Engine(store, config, memory.begin());
  }

  /** A successor finds what this engine has left; what it does from now on is lost. */
  crash(config = TEST_CONFIG): void {
    this.engine = new Engine(this.store, config, this.memory.copy().resume());
  }

  async openNew(name: string): Promise<number> {
    const { inode, handle } = await this.engine.create(ROOT_NODEID, name, O_WRONLY_TRUNC, PID);
    this.engine.acknowledge(handle, `0.${(this.#unique += 1)}`);
    this.engine.table.count(inode);
    return handle;
  }

  async openAgain(name: string): Promise<number> {
    const inode = await this.engine.lookup(ROOT_NODEID, name);
    assert(inode !== undefined);
    this.engine.table.count(inode);
    return (await this.engine.open(inode.nodeid, O_WRONLY_TRUNC, PID)).handle;
  }

  async write(handle: number, offsetBytes: number, text: string, more = {}): Promise<number> {
    return this.engine.write({
      handle,
      offsetBytes,
      data: Buffer.from(text),
      user: USER,
      unique: `1.${(this.#unique += 1).toString(16)}`,
      ...more,
    });
  }

  async save(name: string, text: string): Promise<void> {
    const handle = await this.openNew(name);
    await this.write(handle, 0, text);
    await this.engine.flush(handle, USER);
    await this.engine.release(handle);
  }

  /** Every way to end the file reports the error, and S3 is as it was before. */
  async checkFailed(handle: number, code: string, left: Record<string, string>): Promise<void> {
    await assert.rejects(this.write(handle, 0, "x"), codeIs(code), "a later write");
    await assert.rejects(this.engine.sync(handle), codeIs(code), "fsync");
    await assert.rejects(this.engine.flush(handle, USER), codeIs(code), "close");
    await assert.rejects(this.engine.release(handle), codeIs(code), "release");
    await this.engine.finish();
    const bodies = this.store.keys.map((key) => [key, String(this.store.body(key))]);
    assert.deepEqual(Object.fromEntries(bodies), left);
    assert.equal(this.store.unfinishedUploads, 0);
  }
}

test("a backward write fails the file: the object that it would have replaced stays", async () => {
  const mount = new Mount();
  await mount.save("key", "good");
  const handle = await mount.openAgain("key");
  await mount.write(handle, 0, "0123456789".repeat(5));
  await assert.rejects(mount.write(handle, 7, "x"), codeIs("EINVAL"));
  await mount.checkFailed(handle, "EINVAL", { key: "good" });
});

test("a write that overlaps what was written fails the file", async () => {
  const mount = new Mount();
  const handle = await mount.openNew("key");
  await mount.write(handle, 0, "0123456789");
  await assert.rejects(mount.write(handle, 5, "0123456789"), codeIs("EINVAL"));
  await mount.checkFailed(handle, "EINVAL", {});
});

test("a failed write stays failed for the next engine", async () => {
  const mount = new Mount();
  await mount.save("key", "good");
  const handle = await mount.openAgain("key");
  mount.engine.acknowledge(handle, "0.99");
  await mount.write(handle, 0, "0123456789");
  await assert.rejects(mount.write(handle, 0, "x"), codeIs("EINVAL"));
  mount.crash();
  await mount.checkFailed(handle, "EINVAL", { key: "good" });
});

test("a part that S3 refuses fails the file at the next call, and its upload is removed", async () => {
  class RefusingStore extends MemoryStore {
    override async uploadPart(): Promise<never> {
      throw new Failure("denied", "no more parts");
    }
  }
  const mount = new Mount(new RefusingStore());
  const handle = await mount.openNew("key");
  await mount.write(handle, 0, "0123456789012345");
  await new Promise(setImmediate);
  await assert.rejects(mount.write(handle, 16, "more"), isDenied);
  await assert.rejects(mount.engine.flush(handle, USER), isDenied);
  await assert.rejects(mount.engine.release(handle), isDenied);
  await mount.engine.finish();
  assert.equal(mount.store.unfinishedUploads, 0);
  assert.deepEqual(mount.store.keys, []);
});

// prettier-ignore
const refusals: [what: string, failure: Failure, code: string][] = [
  ["a key that is too long", new KeyTooLongFailure("916 bytes"),     "ENAMETOOLONG"],
  ["a key that is reserved", new Failure("invalid", "InvalidInput"), "EINVAL"],
];
for (const [what, failure, code] of refusals) {
  test(`${what} is ${code} for the next engine too`, async () => {
    class RefusingStore extends MemoryStore {
      override async put(): Promise<never> {
        throw failure;
      }
    }
    const mount = new Mount(new RefusingStore());
    const handle = await mount.openNew("key");
    await mount.write(handle, 0, "short");
    await assert.rejects(mount.engine.flush(handle, USER), failure);
    mount.crash();
    await mount.checkFailed(handle, code, {});
  });
}

test("an upload that another client has ended is EIO, not ENOENT", async () => {
  const mount = new Mount();
  const handle = await mount.openNew("key");
  await mount.write(handle, 0, "0123456789012345");
  await new Promise(setImmediate);
  assert.equal(mount.store.unfinishedUploads, 1);
  mount.store.endUploads();
  await mount.write(handle, 16, "0123456789012345");
  await assert.rejects(mount.engine.flush(handle, USER), codeIs("EIO"));
  await mount.checkFailed(handle, "EIO", {});
});

test("a write that fails after fsync is reported by close, and the synced object stays", async () => {
  const mount = new Mount();
  const handle = await mount.openNew("key");
  const content = "0123456789".repeat(4);
  await mount.write(handle, 0, content);
  await mount.engine.sync(handle);
  await assert.rejects(mount.write(handle, 40, "more"), codeIs("EIO"));
  await mount.checkFailed(handle, "EIO", { key: content });
});

test("a write that comes again is recognised by its request, not by its offset", async () => {
  const mount = new Mount();
  const handle = await mount.openNew("key");
  const content = "0123456789012345678901";
  await mount.write(handle, 0, content, { unique: "2.1" });
  mount.crash();
  const again = { unique: "2.1", again: true };
  assert.equal(await mount.write(handle, 0, content, again), content.length, "taken before");
  const backward = mount.write(handle, 5, "never seen", { unique: "2.2", again: true });
  await assert.rejects(backward, codeIs("EINVAL"), "no engine has seen this one");
  await mount.checkFailed(handle, "EINVAL", {});
});

test("when the mount ends, synced files are visible and open ones are not", async () => {
  const mount = new Mount();
  await mount.save("replaced", "old");
  const open = await mount.openNew("open");
  await mount.write(open, 0, "half of it");
  const parts = await mount.openNew("parts");
  await mount.write(parts, 0, "0123456789".repeat(10));
  const replaced = await mount.openAgain("replaced");
  await mount.write(replaced, 0, "new");
  const synced = await mount.openNew("synced");
  await mount.write(synced, 0, "all of it");
  await mount.engine.sync(synced);
  const copy = await mount.openNew("copy-closed-by-child");
  await mount.write(copy, 0, "half of it");
  await mount.engine.flush(copy, { pid: 7, owner: "b.2" });
  assert.deepEqual(await mount.engine.finish(), []);
  assert.deepEqual(mount.store.keys, ["replaced", "synced"]);
  assert.equal(String(mount.store.body("replaced")), "old");
  assert.equal(mount.store.unfinishedUploads, 0);
});

test("nothing can be opened for writing once the mount has ended, and no upload is left", async () => {
  const mount = new Mount();
  const closing = await mount.openNew("closing");
  await mount.write(closing, 0, "0123456789".repeat(10));
  const finished = mount.engine.finish();
  await assert.rejects(mount.openNew("late"), codeIs("EIO"));
  await assert.rejects(mount.write(closing, 100, "more"), codeIs("EIO"));
  await finished;
  assert.deepEqual(mount.store.keys, []);
  assert.equal(mount.store.unfinishedUploads, 0);
});

const CHILD = { pid: 7, owner: "b.2" };

test("without its RELEASE, a file of which a copy was closed last counts as open", async () => {
  const mount = new Mount();
  await mount.save("replaced", "old");
  await mount.engine.flush(await mount.openAgain("replaced"), USER);
  // `{ echo head; /bin/echo more; sleep 100; } > report`: the shell duplicates its descriptor and
  // closes the first one before anything is written.
  const report = await mount.openNew("report");
  await mount.engine.flush(report, USER);
  await mount.write(report, 0, "head");
  await mount.write(report, 4, "more", { user: CHILD });
  await mount.engine.flush(report, CHILD);
  // The requests are the same whether a parent has closed its last descriptor here, or a copy.
  const byChild = await mount.openNew("by-child");
  await mount.engine.flush(byChild, USER);
  await mount.write(byChild, 0, "by a child", { user: CHILD });
  await mount.engine.flush(byChild, CHILD);
  const empty = await mount.openNew("empty");
  await mount.engine.flush(empty, USER);
  const writtenOn = await mount.openNew("written-on");
  await mount.engine.flush(writtenOn, CHILD);
  await mount.write(writtenOn, 0, "not closed since");
  assert.deepEqual(await mount.engine.finish(), []);
  assert.deepEqual(mount.store.keys, ["replaced"]);
  assert.equal(String(mount.store.body("replaced")), "old");
  assert.equal(mount.store.unfinishedUploads, 0);
});

test("writers wait for memory and are served when others close, nothing fails", async () => {
  const config = { ...TEST_CONFIG, writePartSizeBytes: 1000 };
  const mount = new Mount(new MemoryStore(), new TestMemory(1 << 18, 1 << 14), config);
  const first = await mount.openNew("first");
  await mount.write(first, 0, "x".repeat(900));
  const waiting = Array.from({ length: 40 }, async (_, n) => mount.save(`n${n}`, "y".repeat(700)));
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  await mount.engine.flush(first, USER);
  await mount.engine.release(first);
  await Promise.all(waiting);
  assert.equal(mount.store.keys.length, 41);
});

test("of more writes than may wait at once the last fails its own file, and no other", async () => {
  const store = new HaltedStore();
  const config = { ...TEST_CONFIG, blockedWritesMax: 2 };
  const mount = new Mount(store, new TestMemory(), config);
  const text = "0123456789abcdef".repeat(20); // more parts than may be on their way to S3
  const handles = [];
  for (const name of ["a", "b", "c"]) handles.push(await mount.openNew(name));
  const [a = 0, b = 0, c = 0] = handles;
  const waiting = [a, b].map((handle) => mount.write(handle, 0, text));
  await assert.rejects(mount.write(c, 0, text), codeIs("ENOMEM"));
  store.go.resolve();
  assert.deepEqual(await Promise.all(waiting), [text.length, text.length]);
  for (const handle of [a, b]) {
    await mount.engine.flush(handle, USER);
    await mount.engine.release(handle);
  }
  await mount.checkFailed(c, "ENOMEM", { a: text, b: text });
});
