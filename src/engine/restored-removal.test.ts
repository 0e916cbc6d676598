import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import type { EngineMemory } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

type Call = "head" | "delete";
const UNIQUE = "0.2";
const { EIO } = constants.errno;

/** A bucket whose HEADs and DELETEs can fail, or can stay without an answer. */
class FailingStore extends MemoryStore {
  readonly failures = new Map<Call, unknown>();
  /** Calls that wait until the promise settles. */
  readonly stalls = new Map<Call, Promise<void>>();
  deletes = 0;

  override async head(key: string) {
    await this.#begin("head");
    return super.head(key);
  }

  override async delete(key: string) {
    this.deletes += 1;
    await this.#begin("delete");
    return super.delete(key);
  }

  async #begin(call: Call): Promise<void> {
    await this.stalls.get(call);
    if (this.failures.has(call)) throw this.failures.get(call);
  }
}

async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

/** Engines follow each other on one bucket and one memory. */
class Engines {
  readonly store = new FailingStore();
  readonly #memory = new TestMemory(1 << 20);
  #durable: EngineMemory = this.#memory.begin();
  engine = new Engine(this.store, TEST_CONFIG, this.#durable);

  /** `commits`: as when a request is answered. */
  async replace(commits = true): Promise<void> {
    if (commits) this.#durable.journal.commit();
    this.#durable = this.#memory.resume();
    this.engine = new Engine(this.store, TEST_CONFIG, this.#durable);
    await turns();
  }

  /** The request of a program, which reports its failure. */
  unlink(leaving?: AbortSignal): Promise<unknown> {
    const unlinked = this.engine.unlink(ROOT_NODEID, "f", UNIQUE, leaving);
    return unlinked.catch((error: unknown) => error);
  }

  get intents(): number {
    return [...this.engine.answers.records].filter(({ is }) => is === "intent").length;
  }
}

/** An rm(1) was killed in an outage, and its engine died before S3 had answered the DELETE. */
async function killedInOutage(): Promise<Engines> {
  const engines = new Engines();
  await engines.store.put("f", Buffer.from("content"));
  engines.store.stalls.set("delete", new Promise(() => {}));
  void engines.unlink();
  await turns();
  engines.engine.answers.forget(UNIQUE); // the kernel has taken EINTR
  engines.store.stalls.clear();
  engines.store.deletes = 0;
  return engines;
}

const FAILURES: Readonly<Record<string, readonly [Call, unknown]>> = {
  "a HEAD that fails": ["head", new Failure("remote", "S3 is away")],
  "a HEAD that is denied": ["head", new Failure("denied", "the credentials have expired")],
  "a HEAD that times out": ["head", new DOMException("the limit is over", "TimeoutError")],
  "a HEAD that fails by a bug": ["head", new TypeError("unexpected")],
  "a DELETE that fails": ["delete", new Failure("remote", "S3 is away")],
};

for (const [name, [call, failure]] of Object.entries(FAILURES)) {
  test(`a restored deletion that ended with ${name} is not sent by a later engine`, async () => {
    const engines = await killedInOutage();
    engines.store.failures.set(call, failure);
    await engines.replace();
    engines.store.failures.clear();
    engines.store.deletes = 0;
    assert.equal(engines.intents, 0);
    for (let engine = 0; engine < 3; engine++) await engines.replace();
    assert.equal(engines.store.deletes, 0);
    assert.equal(String(engines.store.body("f")), "content");
  });
}

test("a restored deletion that failed is over for a later engine, also without any request since", async () => {
  const engines = await killedInOutage();
  engines.store.failures.set("head", new Failure("remote", "S3 is away"));
  await engines.replace();
  engines.store.failures.clear();
  await engines.replace(false);
  assert.equal(engines.store.deletes, 0);
});

test("an unlink that is sent again reports why its restored deletion failed", async () => {
  const engines = await killedInOutage();
  const away = Promise.withResolvers<void>();
  engines.store.stalls.set("head", away.promise);
  const denied = new Failure("denied", "the credentials have expired");
  engines.store.failures.set("head", denied);
  await engines.replace();
  const unlinked = engines.unlink();
  await turns();
  away.resolve();
  assert.equal(await unlinked, denied);
  assert.equal(engines.engine.answers.of(UNIQUE)?.errno, EIO);
  assert.equal(String(engines.store.body("f")), "content");
});

test("a rmdir that is sent again reports why its restored deletion failed", async () => {
  const engines = new Engines();
  await engines.store.put("d/", Buffer.alloc(0));
  const remove = () => engines.engine.removeDirectory(ROOT_NODEID, "d", UNIQUE);
  engines.store.stalls.set("delete", new Promise(() => {}));
  void remove();
  await turns();
  const away = Promise.withResolvers<void>();
  engines.store.stalls.set("head", away.promise);
  engines.store.failures.set("head", new Failure("remote", "S3 is away"));
  await engines.replace();
  const removed = assert.rejects(remove(), { kind: "remote" });
  away.resolve();
  await removed;
  assert.deepEqual(engines.store.keys, ["d/"]);
});

test("an unlink that is sent again after its restored deletion failed has that outcome", async () => {
  const engines = await killedInOutage();
  engines.store.failures.set("head", new Failure("remote", "S3 is away"));
  await engines.replace();
  assert.deepEqual(engines.engine.answers.of(UNIQUE), {
    is: "outcome",
    unique: UNIQUE,
    errno: EIO,
  });
});

for (const fails of [true, false]) {
  const ended = fails ? "failed" : "succeeded";
  test(`a killed rm that ${ended} is over for a later engine, also without any request since`, async () => {
    const engines = new Engines();
    await engines.store.put("f", Buffer.from("content"));
    const away = Promise.withResolvers<void>();
    engines.store.stalls.set("delete", away.promise);
    if (fails) engines.store.failures.set("delete", new Failure("remote", "S3 is away"));
    const killed = new AbortController();
    const unlinked = engines.unlink(killed.signal);
    await turns();
    killed.abort();
    engines.engine.answers.forget(UNIQUE); // the kernel has taken EINTR
    away.resolve();
    await unlinked;
    engines.store.failures.clear();
    engines.store.stalls.clear();
    await engines.store.put("f", Buffer.from("content")); // by another client
    engines.store.deletes = 0;
    await engines.replace(false);
    assert.equal(engines.store.deletes, 0);
    assert.equal(String(engines.store.body("f")), "content");
  });
}

test("every deletion that an engine left is ended by its successor, however many there are", async () => {
  const engines = new Engines();
  const { etag } = await engines.store.put("key-0", Buffer.from("content"));
  for (let n = 0; n < 5_000; n++) engines.engine.answers.intend(`1.${n}`, `key-${n}`, etag);
  await engines.replace();
  assert.equal(engines.store.deletes, 1);
  await engines.store.put("key-0", Buffer.from("content")); // by another client
  await engines.replace();
  assert.equal(engines.store.deletes, 1);
  assert.equal(String(engines.store.body("key-0")), "content");
});
