import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { BufferPool } from "./buffer-pool.ts";
import { ReadStream } from "./read-stream.ts";
import { ReadingHabits } from "./reading-habits.ts";
import { drained, MIB, OBJECT_BYTES, readAndCompare, SIZES, SlowStore } from "./test-slow-store.ts";

function open(store: SlowStore, limitBytes: number, habits = notReadOn(), nowMs = Date.now) {
  const pool = new BufferPool(limitBytes, { nowMs });
  const source = { store, pool, key: "k", etag: "e", objectBytes: OBJECT_BYTES };
  return { pool, stream: new ReadStream(source, SIZES, habits) };
}

/** Of a mount whose last readers left early. */
function notReadOn(): ReadingHabits {
  const habits = new ReadingHabits();
  while (habits.readOn) habits.note(false);
  return habits;
}

test("a sequential reader gets every byte with few, growing requests", async () => {
  const store = new SlowStore();
  const { pool, stream } = open(store, 256 * MIB);
  for (let at = 0; at < OBJECT_BYTES; at += 128 * 1024)
    assert.equal(await readAndCompare(stream, at, 128 * 1024), "ok");
  assert(store.fetches <= 16, `${store.fetches} requests`);
  stream.close();
  await drained(pool);
});

/** The reader has something else to do for so many turns after each read. */
async function readSpan(stream: ReadStream, [from, to]: [number, number], turnsEach: number) {
  for (let at = from; at < to; at += 512 * 1024) {
    assert.equal(await readAndCompare(stream, at, 512 * 1024), "ok");
    for (let turn = 0; turn < turnsEach; turn++) await new Promise(setImmediate);
  }
}

test("where S3 is faster than the reader, one GET brings all that follows", async () => {
  const store = new SlowStore();
  const { pool, stream } = open(store, 256 * MIB);
  await readSpan(stream, [0, OBJECT_BYTES], 20);
  const last = store.gets.at(-1);
  assert.equal(last?.toBytes, OBJECT_BYTES);
  assert((last?.fromBytes ?? OBJECT_BYTES) < 4 * MIB, JSON.stringify(store.gets));
  stream.close();
  await drained(pool);
});

test("a file that is read from its beginning is asked for whole, unless the last ones were left early", async () => {
  const habits = new ReadingHabits();
  const firstGet = async (readBytes: number) => {
    const store = new SlowStore();
    const { pool, stream } = open(store, 256 * MIB, habits);
    await readSpan(stream, [0, readBytes], 0);
    stream.close();
    await drained(pool);
    return store.gets[0]?.toBytes;
  };
  const some = 512 * 1024;
  assert.equal(await firstGet(OBJECT_BYTES), OBJECT_BYTES);
  assert.equal(await firstGet(some), OBJECT_BYTES, "one may be an exception");
  assert.equal(await firstGet(some), OBJECT_BYTES, "as nobody knew before");
  assert.equal(await firstGet(OBJECT_BYTES), MIB);
  assert.equal(await firstGet(some), OBJECT_BYTES);
});

test("so many readers at once have no GET each that waits for them", async () => {
  const pool = new BufferPool(256 * MIB);
  const store = new SlowStore();
  const streams = Array.from({ length: 20 }, () => {
    const source = { store, pool, key: "k", etag: "e", objectBytes: OBJECT_BYTES };
    return new ReadStream(source, SIZES, new ReadingHabits());
  });
  for (let at = 0; at < 2 * MIB; at += MIB) {
    await Promise.all(streams.map((stream) => readAndCompare(stream, at, MIB)));
  }
  store.gets.length = 0;
  for (let at = 2 * MIB; at < 4 * MIB; at += MIB) {
    await Promise.all(streams.map((stream) => readAndCompare(stream, at, MIB)));
  }
  assert(store.gets.length > 0);
  for (const { fromBytes, toBytes } of store.gets) assert(toBytes - fromBytes <= 8 * MIB);
  for (const stream of streams) stream.close();
  await drained(pool);
});

test("four readers with a GET each read ahead less than one who has several", async () => {
  const store = new SlowStore();
  const pool = new BufferPool(2048 * MIB, { nowMs: () => 0 });
  const source = { store, pool, key: "k", etag: "e", objectBytes: OBJECT_BYTES };
  const stream = () => new ReadStream(source, SIZES, new ReadingHabits());
  const streams = Array.from({ length: 4 }, stream);
  let mostBytes = 0;
  for (let at = 0; at < OBJECT_BYTES; at += MIB) {
    const size = Math.min(MIB, OBJECT_BYTES - at);
    await Promise.all(streams.map((one) => readAndCompare(one, at, size)));
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    mostBytes = Math.max(mostBytes, pool.usedBytes);
  }
  assert(mostBytes <= 4 * 16 * MIB, `${mostBytes / MIB / 4} MiB each`);
  assert.equal(store.gets.length, 4);
  for (const one of streams) one.close();
  await drained(pool);
});

test("where the reader waits for S3, several GETs run at once", async () => {
  const store = new SlowStore();
  store.turnsEach = 50;
  const { pool, stream } = open(store, 256 * MIB);
  await readSpan(stream, [0, OBJECT_BYTES], 0);
  for (const { fromBytes, toBytes } of store.gets) assert(toBytes - fromBytes <= 8 * MIB);
  stream.close();
  await drained(pool);
});

test("a long GET is left when S3 falls behind", async () => {
  let nowMs = 0;
  const store = new SlowStore();
  const { pool, stream } = open(store, 256 * MIB, notReadOn(), () => nowMs);
  await readSpan(stream, [0, 2 * MIB], 20);
  assert.equal(store.gets.at(-1)?.toBytes, OBJECT_BYTES, "it goes on to the end");
  const begun = store.gets.length;
  store.turnsEach = 200;
  for (let at = 2 * MIB; at < 20 * MIB; at += MIB) {
    nowMs += 20;
    await readSpan(stream, [at, at + MIB], 0);
  }
  assert(store.gets.length > begun, "several at once");
  stream.close();
  await drained(pool);
});

test("a long GET is not begun for a reader in no hurry", async () => {
  let nowMs = 0;
  const store = new SlowStore();
  const { pool, stream } = open(store, 256 * MIB, notReadOn(), () => nowMs);
  for (let at = 0; at < 8 * MIB; at += 512 * 1024) {
    await readSpan(stream, [at, at + 1], 20);
    nowMs += 6000;
  }
  for (const { fromBytes, toBytes } of store.gets) assert(toBytes - fromBytes <= 8 * MIB);
  stream.close();
  await drained(pool);
});

test("random readers fetch what they ask for and nothing else", async () => {
  const store = new SlowStore();
  const { pool, stream } = open(store, 256 * MIB);
  for (const at of [9, 3, 17, 5, 12]) await readAndCompare(stream, at * MIB, 4096);
  assert.equal(store.fetches, 5);
  stream.close();
  await drained(pool);
});

test("a reader at random that began at the start fetches little", async () => {
  const store = new SlowStore();
  const { pool, stream } = open(store, 256 * MIB);
  for (let at = 0; at < 4 * MIB; at += MIB) await readAndCompare(stream, at, MIB);
  const before = store.fetchedBytes;
  for (let n = 0; n < 300; n++) {
    const page = (n * 2654435761) % Math.floor(OBJECT_BYTES / 4096);
    await readAndCompare(stream, page * 4096, 4096);
  }
  const eachKib = (store.fetchedBytes - before) / 300 / 1024;
  assert(eachKib <= 128, `${eachKib} KiB per read`);
  stream.close();
  await drained(pool);
});

test("a read that jumps far ahead does not take away what the next one needs", async () => {
  const { pool, stream } = open(new SlowStore(), 256 * MIB);
  for (const [at, size] of [
    [MIB, MIB],
    [2 * MIB, 1], // the window begins here, with one range
    [7 * MIB, 1], // as far ahead as still counts as disorder
    [2 * MIB, 1],
  ] as const) {
    assert.equal(await readAndCompare(stream, at, size), "ok");
  }
  stream.close();
  await drained(pool);
});

test("readers at once share the memory to read ahead, and who remains gets it back", async () => {
  let nowMs = 5000;
  const pool = new BufferPool(128 * MIB, { nowMs: () => nowMs });
  const streams = Array.from({ length: 8 }, () => {
    const source = { store: new SlowStore(), pool, key: "k", etag: "e", objectBytes: OBJECT_BYTES };
    return new ReadStream(source, SIZES, new ReadingHabits());
  });
  let peakBytes = 0;
  for (let at = 0; at < 16 * MIB; at += MIB) {
    await Promise.all(streams.map((stream) => readAndCompare(stream, at, MIB)));
    peakBytes = Math.max(peakBytes, pool.usedBytes);
  }
  // Each 4 MiB ahead, and behind it what the kernel may still ask for.
  assert(peakBytes <= 8 * 11 * MIB, `${peakBytes / MIB} MiB`);
  assert.equal(pool.windowBytesMax, 4 * MIB);
  for (const stream of streams.slice(2)) stream.close();
  assert.equal(pool.windowBytesMax, 16 * MIB);
  nowMs += 1001; // the second one is open and reads no more
  await readAndCompare(streams[0] as ReadStream, 16 * MIB, MIB);
  assert.equal(pool.windowBytesMax, 32 * MIB);
  for (const stream of streams) stream.close();
  await drained(pool);
});

async function runMix(
  reads: { jump: boolean; at: number; size: number; waits: boolean }[],
  failsEvery: number,
  limitMib: number,
): Promise<void> {
  const store = new SlowStore();
  store.failing = (fetch) => failsEvery > 0 && fetch % failsEvery === failsEvery - 1;
  const { pool, stream } = open(store, limitMib * MIB);
  const pending: Promise<unknown>[] = [];
  let next = 0;
  for (const { jump, at, size, waits } of reads) {
    const offset = jump ? at : next;
    next = Math.min(offset + size, OBJECT_BYTES);
    const reading = readAndCompare(stream, offset, size);
    pending.push(reading);
    if (waits) await reading;
  }
  await Promise.all(pending);
  stream.close();
  await drained(pool);
}

test("any mix of concurrent reads, failures and little memory gives right bytes or a failure", async () => {
  const read = fc.record({
    jump: fc.boolean(),
    at: fc.nat({ max: OBJECT_BYTES }),
    size: fc.constantFrom(1, 4096, 131072, MIB),
    waits: fc.boolean(),
  });
  const property = fc.asyncProperty(
    fc.array(read, { maxLength: 12 }),
    fc.nat({ max: 4 }),
    fc.constantFrom(1, 8, 64),
    runMix,
  );
  await fc.assert(property, { numRuns: 300 });
});
