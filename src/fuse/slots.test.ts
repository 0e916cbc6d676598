import assert from "node:assert/strict";
import { test } from "node:test";
import { Slots, SLOTS_BYTES } from "./slots.ts";
import { slotsIn } from "./test-slots.ts";

test("a small message moves to a parking place and frees the large one", () => {
  const slots = slotsIn(Buffer.alloc(SLOTS_BYTES));
  const slot = slots.arm();
  assert(slot !== undefined);
  assert.equal(slot.bytes.readUInt32LE(0), 0, "zeroed before it is armed");
  slot.bytes.write("request");
  const parked = slots.park(slot, 7);
  assert.equal(parked.parking, true);
  assert.equal(parked.bytes.toString("latin1", 0, 7), "request");
  assert.equal(slot.bytes.readUInt32LE(0), 0, "the large place is free again");
  slots.release(parked);
  assert.equal(parked.bytes.readUInt32LE(0), 0);
});

test("a large message stays where it is, and places run out rather than being shared", () => {
  const slots = slotsIn(Buffer.alloc(SLOTS_BYTES));
  const armed = Array.from({ length: 64 }, () => slots.arm());
  assert.equal(new Set(armed).size, 64);
  assert.equal(slots.arm(), undefined);
  const [first] = armed;
  assert(first !== undefined);
  assert.equal(slots.park(first, 5000), first);
  slots.release(first);
  assert.equal(slots.arm(), first);
});

test("what only many waiting writers need is given back, and only then", () => {
  const idle: number[] = [];
  const slots = new Slots(Buffer.alloc(SLOTS_BYTES), (offset) => idle.push(offset));
  const armed = Array.from({ length: 12 }, () => slots.arm());
  for (const slot of armed) if (slot !== undefined) slots.release(slot);
  assert.equal(new Set(idle).size, 4, "those beyond the first eight");
  const again = Array.from({ length: 8 }, () => slots.arm());
  assert(again.every((slot) => slot !== undefined && slot.index < 8));
});

test("a crowd of small messages takes the small places, then large ones", () => {
  const slots = slotsIn(Buffer.alloc(SLOTS_BYTES));
  const places = Array.from({ length: 1024 + 3 }, () => {
    const slot = slots.arm();
    assert(slot !== undefined);
    return slots.park(slot, 100);
  });
  assert.equal(new Set(places.map(({ bytes }) => bytes.byteOffset)).size, 1024 + 3);
  assert.deepEqual(
    places.slice(-4).map(({ parking }) => parking),
    [true, false, false, false],
  );
});
