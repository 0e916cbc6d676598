import assert from "node:assert/strict";
import { test } from "node:test";
import { BufferPool } from "./buffer-pool.ts";
import { ReadStream } from "./read-stream.ts";
import { ReadingHabits } from "./reading-habits.ts";
import { drained, MIB, OBJECT_BYTES, readAndCompare, SIZES, SlowStore } from "./test-slow-store.ts";

const LIMIT_MIB = 64;
const READ_BYTES = 128 * 1024;

/** Open files of one mount; the clock stands still unless a test moves it. */
function openFiles(count: number, limitMib = LIMIT_MIB) {
  const clock = { ms: 0 };
  const pool = new BufferPool(limitMib * MIB, { nowMs: () => clock.ms });
  const store = new SlowStore();
  const source = { store, pool, key: "k", etag: "e", objectBytes: OBJECT_BYTES };
  const open = () => new ReadStream(source, SIZES, new ReadingHabits());
  return { clock, pool, store, open, streams: Array.from({ length: count }, open) };
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

test("open files beyond the memory limit give their windows back, and all can read on", async () => {
  const { pool, streams, clock } = openFiles(1000);
  let peakBytes = 0;
  for (const stream of streams) {
    assert.equal(await readAndCompare(stream, 0, READ_BYTES), "ok");
    peakBytes = Math.max(peakBytes, pool.usedBytes);
    clock.ms += 1;
  }
  assert(peakBytes <= LIMIT_MIB * MIB, `${peakBytes / MIB} MiB`);
  for (const stream of streams) {
    assert.equal(await readAndCompare(stream, READ_BYTES, READ_BYTES), "ok");
    peakBytes = Math.max(peakBytes, pool.usedBytes);
    clock.ms += 1;
  }
  assert(peakBytes <= LIMIT_MIB * MIB, `${peakBytes / MIB} MiB`);
  for (const stream of streams) stream.close();
  await drained(pool);
});

test("a new sequential reader reads ahead as if the open files were not there", async () => {
  const { pool, store, streams, open, clock } = openFiles(1000);
  for (const stream of streams) await readAndCompare(stream, 0, READ_BYTES);
  await turns(20);
  clock.ms += 2000; // they rest
  const sequentialGets = async (stream: ReadStream) => {
    const before = store.gets.length;
    for (let at = 0; at < OBJECT_BYTES; at += MIB) {
      assert.equal(await readAndCompare(stream, at, Math.min(MIB, OBJECT_BYTES - at)), "ok");
    }
    return store.gets.slice(before);
  };
  const crowded = open();
  const gets = await sequentialGets(crowded);
  assert(pool.usedBytes <= LIMIT_MIB * MIB, `${pool.usedBytes / MIB} MiB`);
  assert.deepEqual(gets, [{ fromBytes: 0, toBytes: OBJECT_BYTES }]);
  for (const stream of [...streams, crowded]) stream.close();
  await drained(pool);
});

test("more readers at work than there is memory for fetch what they need, not a window each", async () => {
  const { pool, store, streams } = openFiles(200);
  for (let at = 0; at < MIB; at += READ_BYTES) {
    for (const stream of streams) assert.equal(await readAndCompare(stream, at, READ_BYTES), "ok");
    assert(pool.usedBytes <= (LIMIT_MIB + 1) * MIB, `${pool.usedBytes / MIB} MiB`);
  }
  const factor = store.fetchedBytes / (streams.length * MIB);
  assert(factor < 2.5, `${factor} times as much as was read`);
  for (const stream of streams) stream.close();
  await drained(pool);
});

test("bytes of a reply on its way stay as they are when their window is given back", async () => {
  const { pool, streams, open } = openFiles(1, 1);
  const [first] = streams;
  assert(first !== undefined);
  const lent = await first.read(0, READ_BYTES);
  const before = Buffer.concat(lent.chunks);
  const others = Array.from({ length: 5 }, open);
  for (const other of others) await readAndCompare(other, 3 * MIB, READ_BYTES);
  for (const other of others) await readAndCompare(other, 3 * MIB + READ_BYTES, READ_BYTES);
  assert(Buffer.concat(lent.chunks).equals(before));
  lent.release();
  for (const stream of [first, ...others]) stream.close();
  await drained(pool);
});

test("a reader that waits keeps its window; GETs that nobody waits for are ended", async () => {
  const { pool, store, open } = openFiles(0, 2);
  const [early, waiting, late] = [open(), open(), open()];
  assert.equal(await readAndCompare(early, 0, READ_BYTES), "ok"); // the rest is still arriving
  store.turnsEach = 30;
  const bytes = readAndCompare(waiting, 0, READ_BYTES);
  await turns(1);
  const more = readAndCompare(late, 0, READ_BYTES);
  for (let turn = 0; turn < 60 && pool.usedBytes > 2 * MIB; turn++) await turns(1);
  assert(pool.usedBytes <= 2 * MIB, "the first one's window is given back");
  assert.deepEqual(await Promise.all([bytes, more]), ["ok", "ok"]);
  assert.equal(store.gets.length, 3);
  for (const stream of [early, waiting, late]) stream.close();
  await drained(pool);
});

test("a reader that reads again after a rest does not count as one that rests", () => {
  let nowMs = 0;
  const pool = new BufferPool(10 * MIB, { nowMs: () => nowMs });
  const reader = { giveBack: () => assert.fail("it reads") };
  pool.noteRead(reader, nowMs);
  nowMs = 2000;
  assert.equal(pool.readers, 0);
  pool.noteRead(reader, nowMs);
  assert.equal(pool.readers, 1);
  assert.equal(pool.makeRoomFor(20 * MIB), false);
});
