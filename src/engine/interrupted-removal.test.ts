import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { Engine } from "./engine.ts";
import type { EngineMemory } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";
import { MemoryStore } from "../s3/memory-store.ts";

const O_WRONLY_TRUNC = 0o1001;
const PID = 1;
const USER = { pid: PID, owner: "0.1" };
type Call = "head" | "delete";

function codeIs(expected: string) {
  return (error: unknown) =>
    error instanceof PosixFailure
      ? error.code === expected
      : error instanceof Failure && error.kind === expected;
}

/** Holds each call that the test asks for until the test lets it go. */
class StallingStore extends MemoryStore {
  readonly #stalls: { readonly call: Call; readonly gate: PromiseWithResolvers<void> }[] = [];
  deletes = 0;

  /** The next such call waits; the result lets it go. */
  stall(call: Call): () => void {
    const gate = Promise.withResolvers<void>();
    this.#stalls.push({ call, gate });
    return gate.resolve;
  }

  async #wait(call: Call): Promise<void> {
    const index = this.#stalls.findIndex((stall) => stall.call === call);
    if (index >= 0) await this.#stalls.splice(index, 1)[0]?.gate.promise;
  }

  /** The answer is late: it tells of the time at which S3 was asked. */
  override async head(key: string) {
    const answer = await super.head(key);
    await this.#wait("head");
    return answer;
  }

  override async delete(key: string) {
    this.deletes += 1;
    await this.#wait("delete");
    return super.delete(key);
  }
}

async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

/** A mount whose kernel lets other callers go on as soon as a request was interrupted. */
class Mount {
  readonly store = new StallingStore();
  readonly memory = new TestMemory();
  engine!: Engine;
  #durable!: EngineMemory;
  #unique = 0;

  constructor() {
    this.#start(this.memory.begin());
  }

  #start(durable: EngineMemory): void {
    this.#durable = durable;
    this.engine = new Engine(this.store, TEST_CONFIG, durable);
  }

  /** As after kill -9: requests that are under way are never answered. */
  crash(): void {
    this.#durable.journal.commit();
    this.#start(this.memory.resume());
  }

  nextUnique(): string {
    return `0.${(this.#unique += 2)}`;
  }

  async lookup(name: string): Promise<number> {
    const inode = await this.engine.lookup(ROOT_NODEID, name);
    assert(inode !== undefined);
    this.engine.table.count(inode);
    return inode.nodeid;
  }

  async openNew(name: string): Promise<number> {
    const { inode, handle } = await this.engine.create(ROOT_NODEID, name, O_WRONLY_TRUNC, PID);
    this.engine.table.count(inode);
    return handle;
  }

  async write(handle: number, offsetBytes: number, content: string, leaving?: AbortSignal) {
    const data = Buffer.from(content);
    return this.engine.write({ handle, offsetBytes, data, user: USER, leaving });
  }

  async close(handle: number): Promise<void> {
    await this.engine.flush(handle, USER);
    await this.engine.release(handle);
  }

  async save(name: string, content: string): Promise<void> {
    const handle = await this.openNew(name);
    await this.write(handle, 0, content);
    await this.close(handle);
  }

  /** The answer to a failed deletion does not matter: its caller has left. */
  unlink(name: string, leaving?: AbortSignal, unique = this.nextUnique()): Promise<unknown> {
    const work = this.engine.unlink(ROOT_NODEID, name, unique, leaving);
    return work.catch((error: unknown) => error);
  }

  body(name: string): string | undefined {
    return this.store.body(name)?.toString();
  }
}

/** A file that is synced and still open, and whose DELETE S3 stalls. */
async function syncedAndBeingDeleted() {
  const mount = new Mount();
  const handle = await mount.openNew("f");
  await mount.write(handle, 0, "one");
  await mount.engine.sync(handle);
  const letGo = mount.store.stall("delete");
  const removed = mount.unlink("f");
  await turns();
  return { mount, handle, letGo, removed };
}

test("an open file is not written on while its object is being deleted", async () => {
  const { mount, handle, letGo, removed } = await syncedAndBeingDeleted();
  const written = mount.write(handle, 3, "two");
  const refused = assert.rejects(written, codeIs("EIO"));
  await turns();
  assert.equal(mount.body("f"), "one", "nothing is uploaded meanwhile");
  letGo();
  assert.equal(await removed, undefined);
  await refused;
  await assert.rejects(mount.engine.flush(handle, USER), codeIs("EIO"), "close tells it as well");
  await assert.rejects(mount.engine.release(handle), codeIs("EIO"));
  assert.equal(mount.body("f"), undefined);
});

test("a writer that waits for a deletion can be killed", async () => {
  const { mount, handle, letGo, removed } = await syncedAndBeingDeleted();
  const leaving = new AbortController();
  const interrupted = assert.rejects(
    mount.write(handle, 3, "two", leaving.signal),
    codeIs("EINTR"),
  );
  await turns();
  leaving.abort();
  await interrupted;
  letGo();
  await removed;
  await mount.engine.release(handle);
});

test("a file is written on when the deletion that it waited for has failed", async () => {
  const mount = new Mount();
  const handle = await mount.openNew("f");
  await mount.write(handle, 0, "one");
  await mount.engine.sync(handle);
  const { promise, reject } = Promise.withResolvers<void>();
  mount.store.delete = () => promise;
  const removed = mount.unlink("f");
  await turns();
  const written = mount.write(handle, 3, "two");
  await turns();
  reject(new Failure("remote", "S3 does not want to"));
  assert(codeIs("remote")(await removed));
  assert.equal(await written, 3);
  await mount.close(handle);
  assert.equal(mount.body("f"), "onetwo");
});

test("of two unlinks of one file, the second sends no DELETE of its own", async () => {
  const mount = new Mount();
  await mount.store.put("f", Buffer.from("old"));
  const letLookupsGo = mount.store.stall("head");
  const letDeleteGo = mount.store.stall("delete");
  const first = mount.unlink("f");
  const second = mount.unlink("f");
  await turns();
  letLookupsGo();
  await turns();
  assert.equal(mount.store.deletes, 1);
  letDeleteGo();
  assert.equal(await first, undefined);
  assert(codeIs("absent")(await second));
  await mount.save("f", "new");
  await turns();
  assert.equal(mount.body("f"), "new");
  assert.equal(mount.store.deletes, 1);
});

test("an unlink that is interrupted before its DELETE deletes nothing afterwards", async () => {
  const mount = new Mount();
  await mount.store.put("f", Buffer.from("old"));
  const nodeid = await mount.lookup("f");
  const letGo = mount.store.stall("head");
  const leaving = new AbortController();
  const removed = mount.unlink("f", leaving.signal);
  await turns();
  leaving.abort();
  const { handle } = await mount.engine.open(nodeid, O_WRONLY_TRUNC, PID);
  await mount.write(handle, 0, "new");
  await mount.close(handle);
  letGo();
  assert(codeIs("EINTR")(await removed));
  assert.equal(mount.body("f"), "new");
});

test("a rmdir that is interrupted before its DELETE leaves what is made afterwards", async () => {
  const mount = new Mount();
  const inode = await mount.engine.makeDirectory(ROOT_NODEID, "d");
  mount.engine.table.count(inode);
  const list = mount.store.list.bind(mount.store);
  const gate = Promise.withResolvers<void>();
  mount.store.list = async (query) => {
    await gate.promise;
    return list(query);
  };
  const leaving = new AbortController();
  const removed = mount.engine.removeDirectory(ROOT_NODEID, "d", "0.2", leaving.signal);
  const refused = assert.rejects(removed, codeIs("EINTR"));
  await turns();
  leaving.abort();
  gate.resolve();
  await refused;
  assert.equal(await mount.lookup("d"), inode.nodeid);
});

test("a directory stays that got a file while its own object was being deleted", async () => {
  const mount = new Mount();
  await mount.store.put("d/", Buffer.alloc(0));
  const nodeid = await mount.lookup("d");
  const letGo = mount.store.stall("delete");
  const removed = mount.engine.removeDirectory(ROOT_NODEID, "d", "0.2");
  const refused = assert.rejects(removed, codeIs("ENOTEMPTY"));
  await turns();
  const { handle } = await mount.engine.create(nodeid, "file", O_WRONLY_TRUNC, PID);
  await mount.write(handle, 0, "new");
  await mount.close(handle);
  letGo();
  await refused;
  assert.deepEqual(mount.store.keys, ["d/file"]);
  assert.equal(await mount.lookup("d"), nodeid);
});

test("a directory is not made again before the deletion of its own object has ended", async () => {
  const mount = new Mount();
  await mount.store.put("d/", Buffer.alloc(0));
  await mount.lookup("d");
  const letGo = mount.store.stall("delete");
  const removed = mount.engine.removeDirectory(ROOT_NODEID, "d", "0.2");
  await turns();
  const made = mount.engine.makeDirectory(ROOT_NODEID, "d");
  await turns();
  letGo();
  await removed;
  mount.engine.table.count(await made);
  assert.equal(mount.engine.table.current("d"), await made);
  assert.deepEqual(mount.store.keys, []);
});

test("a file is not made while an unlink of its name waits for S3, though others removed it", async () => {
  const mount = new Mount();
  await mount.store.put("f", Buffer.from("old"));
  const letLookupGo = mount.store.stall("head");
  const letDeleteGo = mount.store.stall("delete");
  const removed = mount.unlink("f");
  await turns();
  const created = mount.save("f", "new"); // passes the unlink, which still looks the name up
  await MemoryStore.prototype.delete.call(mount.store, "f"); // by another client
  letLookupGo();
  await turns();
  assert.equal(mount.body("f"), undefined, "nothing is uploaded before the DELETE is answered");
  letDeleteGo();
  await removed;
  await created;
  assert.equal(mount.body("f"), "new");
});

for (const isRepeated of [true, false]) {
  const who = isRepeated ? "whose request comes again" : "that was killed";
  test(`a successor finishes the deletion of an rm ${who} before the name is made anew`, async () => {
    const mount = new Mount();
    await mount.store.put("f", Buffer.from("old"));
    await mount.lookup("f");
    mount.store.stall("delete"); // the engine dies before S3 has answered
    const unique = mount.nextUnique();
    void mount.unlink("f", undefined, unique);
    await turns();
    if (!isRepeated) mount.engine.answers.forget(unique); // the caller was told EINTR
    const letGo = mount.store.stall("delete");
    mount.crash();
    const repeated = isRepeated ? mount.unlink("f", undefined, unique) : undefined;
    const created = mount.save("f", "new").catch((error: unknown) => error);
    await turns();
    assert.equal(mount.body("f"), "old");
    letGo();
    assert.equal(await repeated, undefined);
    assert.equal(await created, undefined);
    assert.equal(mount.body("f"), "new");
    assert.equal([...mount.engine.answers.records].filter(({ is }) => is === "intent").length, 0);
  });
}

test("a deletion that a successor repeats hits nothing that is written meanwhile", async () => {
  const mount = new Mount();
  await mount.store.put("f", Buffer.from("old"));
  const nodeid = await mount.lookup("f");
  mount.store.stall("delete");
  const unique = mount.nextUnique();
  void mount.unlink("f", undefined, unique);
  await turns();
  const letGo = mount.store.stall("head");
  mount.crash();
  void mount.unlink("f", undefined, unique);
  await turns();
  const opened = mount.engine.open(nodeid, O_WRONLY_TRUNC, PID);
  const refused = assert.rejects(opened, codeIs("stale"));
  await turns();
  letGo();
  await refused;
  await mount.save("f", "new");
  await turns();
  assert.equal(mount.body("f"), "new");
});

test("the mount does not end while a DELETE is on its way", async () => {
  const mount = new Mount();
  await mount.store.put("f", Buffer.from("old"));
  const letGo = mount.store.stall("delete");
  void mount.unlink("f");
  await turns();
  let hasEnded = false;
  const ended = mount.engine.finish().finally(() => (hasEnded = true));
  await turns();
  assert.equal(hasEnded, false);
  letGo();
  await ended;
  assert.equal(mount.body("f"), undefined);
});
