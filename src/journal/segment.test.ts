import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { extentOf, Segment } from "./segment.ts";

const HEADER_BYTES = 64;
const SIZE_BYTES = 8000;

test("the fill level is a segment's first word, where older releases look for it", () => {
  const memory = Buffer.alloc(extentOf(SIZE_BYTES), 0xff);
  const segment = new Segment(memory, 0, SIZE_BYTES);
  segment.clear();
  segment.enterWriter("1.2");
  segment.append(Buffer.alloc(1000, 7));
  assert.equal(memory.readUInt32LE(0), 1000);
  assert.equal(memory[HEADER_BYTES], 7);
});

test("bytes of another file behind the first word of an older release's header do not count", () => {
  const memory = Buffer.alloc(extentOf(SIZE_BYTES), 0xff);
  memory.writeUInt32LE(1000, 0);
  const segment = new Segment(memory, 0, SIZE_BYTES);
  assert(segment.isSound);
  assert.equal(segment.filledBytes, 1000);
  assert.deepEqual([segment.knowsWriters, segment.writers], [false, []]);
});

test("writers are not known when an older release has appended, whatever follows", () => {
  const memory = Buffer.alloc(extentOf(SIZE_BYTES));
  const segment = new Segment(memory, 0, SIZE_BYTES);
  segment.clear();
  segment.enterWriter("1.2");
  segment.append(Buffer.alloc(1000, 7));
  assert.deepEqual([segment.knowsWriters, segment.writers], [true, ["1.2"]]);
  memory.writeUInt32LE(1010, 0);
  segment.enterWriter("1.3");
  segment.append(Buffer.alloc(1000, 8));
  const larger = new Segment(Buffer.alloc(extentOf(2 * SIZE_BYTES)), 0, 2 * SIZE_BYTES);
  larger.copy(segment);
  larger.append(Buffer.alloc(10, 9));
  assert.deepEqual([larger.knowsWriters, larger.filledBytes], [false, 2020]);
});

test("a segment above 4 GiB keeps its fill level", () => {
  const sizeBytes = 2 ** 32 + 8000;
  const memory = Buffer.alloc(extentOf(sizeBytes)); // the system gives no pages before they are used
  const segment = new Segment(memory, 0, sizeBytes);
  segment.clear();
  memory.writeBigUInt64LE(2n ** 32n - 10n, 0);
  segment.append(Buffer.alloc(1000, 7));
  const successor = new Segment(memory, 0, sizeBytes);
  assert(successor.isSound);
  assert.equal(successor.filledBytes, 2 ** 32 + 990);
  assert.equal(successor.bytes.at(-1), 7);
});
