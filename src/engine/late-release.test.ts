import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { isInterruption, PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { GatedStore } from "./test-gated-store.ts";
import { TestMemory } from "./test-memory.ts";

const O_RDONLY = 0;
const O_WRONLY_TRUNC = 0o1001;
const USER = { pid: 1, owner: "a" };
/** Longer than a RELEASE is waited for that nothing keeps back. */
const LATE_MS = 1_300;
/** As many READs as the kernel hands out at once (max_background). */
const READERS = 64;

/** An open does not read ahead of the first READ. */
const CONFIG = { ...TEST_CONFIG, metadataTtlMs: 60_000, revalidatesOpens: false };

const isRefused = (error: unknown) => error instanceof PosixFailure && error.code === "EPERM";

/** Answers no GET while it is held. */
class SlowStore extends GatedStore {
  override async read(...args: Parameters<GatedStore["read"]>) {
    await this.gate;
    return super.read(...args);
  }
}

async function begin(config = CONFIG) {
  const store = new SlowStore();
  const engine = new Engine(store, config, new TestMemory().begin());
  const openAs = async (name: string, flags: number, leaving?: AbortSignal) => {
    const inode = await engine.lookup(ROOT_NODEID, name);
    assert(inode !== undefined);
    engine.table.count(inode);
    return engine.open(inode.nodeid, flags, USER.pid, leaving);
  };
  /** READs that wait for S3; the kernel sends each RELEASE when its READ is answered. */
  const readSlowly = async (...names: string[]) => {
    for (const name of names) await store.put(name, Buffer.alloc(4096, 1));
    const opened = await Promise.all(names.map((name) => openAs(name, O_RDONLY)));
    store.hold();
    return opened.map(async ({ handle }) => {
      const lent = await engine.read(handle, 0, 4096);
      lent.release();
      await engine.release(handle);
    });
  };
  /** `: > name`, of which the RELEASE has not come yet. */
  const createAndClose = async (name: string) => {
    const { inode, handle } = await engine.create(ROOT_NODEID, name, O_WRONLY_TRUNC, USER.pid);
    engine.acknowledge(handle, "0.1");
    engine.table.count(inode);
    await engine.flush(handle, USER);
    return handle;
  };
  return { store, engine, openAs, readSlowly, createAndClose };
}

test("a file is overwritten right after its reader has closed it, however slow S3 is", async () => {
  const { store, engine, openAs, readSlowly } = await begin();
  const [read] = await readSlowly("key");
  const opening = openAs("key", O_WRONLY_TRUNC);
  await sleep(LATE_MS);
  store.letGo();
  await read;
  const { handle, how } = await opening;
  assert.equal(how, "write");
  await engine.release(handle);
});

test("a file that is read for ever is not waited for longer than for a request", async () => {
  const { store, openAs, readSlowly } = await begin({ ...CONFIG, requestLimitMs: 50 });
  const [read] = await readSlowly("key");
  await assert.rejects(openAs("key", O_WRONLY_TRUNC), isRefused);
  store.letGo();
  await read;
});

test("a RELEASE is waited for while the reads of other files keep it back", async () => {
  const { store, engine, openAs, readSlowly, createAndClose } = await begin();
  await store.put("key", Buffer.from("x"));
  const reader = await openAs("key", O_RDONLY);
  const handle = await createAndClose("stamp");
  const others = Array.from({ length: READERS }, (_, n) => `other-${n}`);
  const reads = await readSlowly(...others);
  const overwriting = openAs("key", O_WRONLY_TRUNC);
  const reading = openAs("stamp", O_RDONLY);
  await sleep(LATE_MS);
  store.letGo();
  await Promise.all(reads);
  await engine.release(reader.handle);
  await engine.release(handle);
  assert.equal((await overwriting).how, "write");
  assert.equal((await reading).how, "read");
});

for (const [how, flags] of Object.entries({ reading: O_RDONLY, overwriting: O_WRONLY_TRUNC })) {
  test(`an open for ${how} waits for the RELEASE of an empty file that was closed`, async () => {
    const { store, engine, openAs, createAndClose } = await begin();
    const handle = await createAndClose("stamp");
    const opening = openAs("stamp", flags);
    await new Promise(setImmediate);
    await engine.release(handle);
    assert.equal((await opening).how, flags === O_RDONLY ? "read" : "write");
    assert.equal(store.body("stamp")?.length, 0);
  });
}

test("an unlink waits for the RELEASE of an empty file that was closed", async () => {
  const { store, engine, createAndClose } = await begin();
  const handle = await createAndClose("stamp");
  const unlinking = engine.unlink(ROOT_NODEID, "stamp", "0.2");
  await sleep(LATE_MS / 4);
  await engine.release(handle);
  await unlinking;
  assert.equal(store.body("stamp"), undefined);
});

test("an unlink does not wait for reads: the kernel locks file and directory", async () => {
  const { store, engine, readSlowly, createAndClose } = await begin();
  const handle = await createAndClose("report");
  const reads = await readSlowly(...Array.from({ length: READERS }, (_, n) => `other-${n}`));
  await assert.rejects(engine.unlink(ROOT_NODEID, "report", "0.2"), isRefused);
  store.letGo();
  await Promise.all(reads);
  await engine.release(handle);
});

test("an unlink that is interrupted while it waits for a RELEASE removes nothing", async () => {
  const { store, engine, createAndClose } = await begin();
  const handle = await createAndClose("stamp");
  const leaving = new AbortController();
  const unlinking = engine.unlink(ROOT_NODEID, "stamp", "0.2", leaving.signal);
  const refused = assert.rejects(unlinking, isInterruption);
  await new Promise(setImmediate);
  leaving.abort();
  await refused;
  await engine.release(handle);
  assert.equal(store.body("stamp")?.length, 0);
});

test("a file that stays open is refused after a second", async () => {
  const { engine, openAs, createAndClose } = await begin();
  const handle = await createAndClose("report"); // `{ sleep 100; echo x; } > report`
  await assert.rejects(openAs("report", O_RDONLY), isRefused);
  await assert.rejects(engine.unlink(ROOT_NODEID, "report", "0.2"), isRefused);
  await engine.release(handle);
});

test("a write tells that a file stays open: it is refused at once", async () => {
  const { store, engine, openAs, createAndClose } = await begin();
  const handle = await createAndClose("report");
  const refused = assert.rejects(openAs("report", O_RDONLY), isRefused);
  await new Promise(setImmediate);
  const beganMs = performance.now();
  await engine.write({ handle, offsetBytes: 0, data: Buffer.from("x"), user: USER });
  await refused;
  await assert.rejects(openAs("report", O_WRONLY_TRUNC), isRefused);
  assert(performance.now() - beganMs < LATE_MS / 2);
  await engine.flush(handle, USER);
  await engine.release(handle);
  assert.equal(String(store.body("report")), "x");
});

test("an open that is interrupted while it waits for a RELEASE opens nothing", async () => {
  const { store, engine, openAs, readSlowly, createAndClose } = await begin();
  const [read] = await readSlowly("key");
  const handle = await createAndClose("stamp");
  const leaving = new AbortController();
  const openings = [
    openAs("key", O_WRONLY_TRUNC, leaving.signal),
    openAs("stamp", O_RDONLY, leaving.signal),
  ];
  const refused = openings.map((opening) => assert.rejects(opening, isInterruption));
  await new Promise(setImmediate);
  leaving.abort();
  await Promise.all(refused);
  store.letGo();
  await read;
  await engine.release(handle);
  assert.equal((await openAs("key", O_WRONLY_TRUNC)).how, "write");
});
