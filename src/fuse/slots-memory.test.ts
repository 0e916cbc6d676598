import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { closeSync } from "node:fs";
import { test } from "node:test";
import { ownMappings } from "../sys/mappings.ts";
import { createMemfd, LazyMemory } from "../sys/memfd.ts";
import { OPCODE } from "./opcode.ts";
import { Slots, SLOTS_BYTES } from "./slots.ts";

const NAME = "slots-memory-test";

/** As each process maps them anew. */
function slotsOf(fd: number, maxWriteBytes?: number): Slots {
  const memory = new LazyMemory(fd, SLOTS_BYTES);
  return new Slots(memory, memory.release, undefined, maxWriteBytes);
}

/** What of the slots is mapped, page by page, so that the kernel need not look for it. */
function mappedBytes(): number {
  const ours = ownMappings().filter((mapping) => mapping.includes(`memfd:${NAME}`));
  const sizes = ours.map((mapping) => Number(/^Rss: +(\d+) kB$/m.exec(mapping)?.[1]) * 1024);
  return sizes.reduce((sum, size) => sum + size, 0);
}

test("a place is mapped as a whole before the kernel fills it, by a successor too", () => {
  const fd = createMemfd(NAME, SLOTS_BYTES);
  const first = slotsOf(fd);
  const left = first.arm();
  const free = first.arm();
  assert(left !== undefined && free !== undefined);
  assert(mappedBytes() >= left.bytes.length + free.bytes.length);
  const message = Buffer.alloc(100_000, 0xab);
  message.writeUInt32LE(message.length, 0);
  message.writeUInt32LE(OPCODE.WRITE, 4);
  message.copy(left.bytes);
  first.release(free);

  const next = slotsOf(fd);
  const before = mappedBytes();
  const one = next.arm();
  assert.equal(one?.index, free.index);
  for (const { slot } of next.leftovers) next.release(slot);
  const other = next.arm();
  assert.equal(other?.index, left.index);
  const twoPlaces = 2 * left.bytes.length;
  const touchedBefore = 2 * 128 * 1024; // by looking at their first pages, and around them
  assert(mappedBytes() - before >= twoPlaces - touchedBefore);
  closeSync(fd);
});

test("a place takes no more memory than the largest WRITE of its mount, in a successor too", () => {
  const fd = createMemfd(NAME, SLOTS_BYTES);
  const before = mappedBytes();
  for (const maxWriteBytes of [64 * 1024, 1024 * 1024]) {
    const slots = slotsOf(fd, maxWriteBytes);
    assert.equal(slots.maxWriteBytes, 64 * 1024, "the kernel was told once");
    const armed = Array.from({ length: 8 }, () => slots.arm());
    for (const slot of armed) {
      assert.equal(slot?.into.length, 68 * 1024, "headers have a page");
      if (slot !== undefined) slots.release(slot);
    }
  }
  const mapped = mappedBytes() - before;
  assert(mapped < 2 * 8 * 128 * 1024, `${mapped} bytes are mapped by the two`);
  closeSync(fd);
});

test("memory of a release that did not note the largest WRITE has places for one of 1 MiB", () => {
  const fd = createMemfd(NAME, SLOTS_BYTES);
  slotsOf(fd, 64 * 1024);
  new LazyMemory(fd, SLOTS_BYTES).subarray(0, 4096).writeUInt32LE(0, 24);
  const slots = slotsOf(fd, 64 * 1024);
  assert.equal(slots.maxWriteBytes, 1024 * 1024);
  assert.equal(slots.arm()?.into.length, 1024 * 1024 + 4096);
  closeSync(fd);
});
