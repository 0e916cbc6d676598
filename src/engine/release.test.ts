import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { replay } from "../journal/saved-state.ts";
import type { Segment } from "../journal/segment.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { GatedStore } from "./test-gated-store.ts";
import { TestMemory } from "./test-memory.ts";

const O_RDONLY = 0;
const O_WRONLY_TRUNC = 0o1001;
const PID = 1;
const TEXT = "0123456789";

/** The memory as it is when the place of a released segment belongs to another writer. */
function snapshotWhenGiven(memory: TestMemory, { spool }: ReturnType<TestMemory["begin"]>) {
  const snapshots: TestMemory[] = [];
  const give = spool.give.bind(spool);
  spool.give = (segment: Segment) => {
    const { at, sizeBytes, filledBytes } = segment;
    give(segment);
    if (filledBytes === 0) return;
    const other = spool.take(sizeBytes); // clears its header, as a punched hole does, too
    assert.equal(other.at, at);
    snapshots.push(memory.copy());
    give(other);
  };
  return snapshots;
}

for (const isReplaced of [false, true]) {
  const then = isReplaced ? "the object of another client stays" : "the object is read back whole";
  test(`an engine that dies while RELEASE returns memory: ${then}`, async () => {
    const config = { ...TEST_CONFIG, writePartSizeBytes: 1000, metadataTtlMs: 60_000 };
    const store = new MemoryStore();
    const memory = new TestMemory();
    const durable = memory.begin();
    const snapshots = snapshotWhenGiven(memory, durable);
    const engine = new Engine(store, { ...config, revalidatesOpens: false }, durable);
    const { inode, handle } = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, PID);
    engine.acknowledge(handle, "0.1");
    engine.table.count(inode);
    const user = { pid: 7, owner: "b" }; // another process closes the file last
    await engine.write({ handle, offsetBytes: 0, data: Buffer.from(TEXT), user, unique: "1.1" });
    durable.journal.commit();
    await engine.release(handle);
    assert.equal(String(store.body("key")), TEXT);

    const [snapshot] = snapshots;
    assert(snapshot !== undefined);
    if (isReplaced) await store.put("key", Buffer.from("newer"));
    const next = new Engine(store, { ...config, revalidatesOpens: true }, snapshot.resume());
    await next.release(handle); // the kernel sends it again
    await next.finish();
    const wanted = isReplaced ? "newer" : TEXT;
    assert.equal(String(store.body("key")), wanted);
    if (isReplaced) return;
    const found = await next.lookup(ROOT_NODEID, "key");
    assert.equal(found?.sizeBytes, TEXT.length);
    const reader = await next.open(found.nodeid, O_RDONLY, PID);
    const lent = await next.read(reader.handle, 0, 100);
    assert.equal(String(Buffer.concat(lent.chunks)), TEXT);
    lent.release();
  });
}

/** A bucket that answers no PUT while it is held. */
class HeldStore extends GatedStore {
  override async put(...args: Parameters<GatedStore["put"]>) {
    await this.gate;
    return super.put(...args);
  }
}

/** An empty file whose last descriptor is closed while S3 does not answer. */
async function releaseEmpty() {
  const store = new HeldStore();
  const memory = new TestMemory();
  const durable = memory.begin();
  const engine = new Engine(store, TEST_CONFIG, durable);
  const { inode, handle } = await engine.create(ROOT_NODEID, "key", O_WRONLY_TRUNC, PID);
  engine.acknowledge(handle, "0.1");
  engine.table.count(inode);
  await engine.flush(handle, { pid: PID, owner: "a" });
  store.hold();
  const released = engine.release(handle);
  durable.journal.commit(); // then the kernel has its answer, and forgets the file
  return { store, memory, durable, engine, inode, handle, released };
}

const turns = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
};

test("a file that was released is uploaded by the next engine, and nothing is left of it", async () => {
  const { store, memory, durable, engine: former, inode } = await releaseEmpty();
  former.answers.forget("0.1");
  former.table.forget(inode.nodeid, 1);
  durable.journal.commit();
  const next = memory.copy();
  const resumed = next.resume();
  const engine = new Engine(store, TEST_CONFIG, resumed);
  resumed.journal.state = () => engine.records();
  assert.equal(store.body("key"), undefined);
  store.letGo();
  await turns();
  assert.equal(store.body("key")?.length, 0);
  assert.deepEqual(
    [...engine.records()].filter(({ is }) => is === "open" || is === "inode"),
    [],
  );
  assert.equal(next.copy().resume().saved?.handles.size, 0);
});

test("a file that was released stays so in a compacted journal", async () => {
  const { store, engine: former } = await releaseEmpty();
  const saved = replay(former.records());
  const engine = new Engine(store, TEST_CONFIG, { ...new TestMemory().begin(), saved });
  store.letGo();
  await turns();
  assert.equal(store.body("key")?.length, 0);
  assert.deepEqual(await engine.finish(), []);
});

test("an engine tells of an upload that fails after the last descriptor was closed", async () => {
  const { memory } = await releaseEmpty();
  class RefusingStore extends GatedStore {
    override async put(): Promise<never> {
      throw new Failure("denied", "no more objects");
    }
  }
  const lost: unknown[] = [];
  const onLostUpload = (error: unknown) => void lost.push(error);
  const engine = new Engine(new RefusingStore(), TEST_CONFIG, memory.copy().resume(), {
    onLostUpload,
  });
  await turns();
  assert.match(String(lost), /no more objects/);
  assert.deepEqual(await engine.finish(), []);
});

test("opens and deletions of a file wait for the upload that its RELEASE has begun", async () => {
  const { store, engine, inode, released } = await releaseEmpty();
  const reading = engine.open(inode.nodeid, O_RDONLY, PID);
  await turns();
  store.letGo();
  const reader = await reading;
  await released;
  await engine.release(reader.handle);

  const writer = await engine.open(inode.nodeid, O_WRONLY_TRUNC, PID);
  store.hold();
  const again = engine.release(writer.handle);
  const unlinked = engine.unlink(ROOT_NODEID, "key", "0.7");
  await turns();
  store.letGo();
  await again;
  await unlinked;
  assert.deepEqual(store.keys, []);
});

test("a RELEASE that comes again changes nothing", async () => {
  const { store, engine, handle, released } = await releaseEmpty();
  await engine.release(handle);
  assert.equal(store.body("key"), undefined, "it returns before the upload has ended");
  store.letGo();
  await released;
  await engine.release(handle);
  assert.deepEqual(store.keys, ["key"]);
});

test("the end of the mount waits for a file whose last descriptor is closed", async () => {
  const { store, engine } = await releaseEmpty();
  const finished = engine.finish();
  await turns();
  store.letGo();
  assert.deepEqual(await finished, []);
  assert.equal(store.body("key")?.length, 0);
});
