import assert from "node:assert/strict";
import { test } from "node:test";
import { Slots } from "./slots.ts";
import { slotsIn, TEST_LAYOUT, TEST_SLOTS_BYTES } from "./test-slots.ts";

test("a small message moves to a parking place and frees the large one", () => {
  const slots = slotsIn(Buffer.alloc(TEST_SLOTS_BYTES));
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
  const slots = slotsIn(Buffer.alloc(TEST_SLOTS_BYTES));
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
  const onIdle = (offset: number) => void idle.push(offset);
  const slots = new Slots(Buffer.alloc(TEST_SLOTS_BYTES), onIdle, TEST_LAYOUT);
  const armed = Array.from({ length: 12 }, () => slots.arm());
  for (const slot of armed) if (slot !== undefined) slots.release(slot);
  assert.equal(new Set(idle).size, 4, "those beyond the first eight");
  const again = Array.from({ length: 8 }, () => slots.arm());
  assert(again.every((slot) => slot !== undefined && slot.index < 8));
});

test("a crowd of small messages takes the small places, then large ones", () => {
  const slots = slotsIn(Buffer.alloc(TEST_SLOTS_BYTES));
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

test("many waiting writes keep memory for their own bytes only, a few keep their slots", () => {
  const idle: [offset: number, sizeBytes: number][] = [];
  const onIdle = (offset: number, sizeBytes: number) => void idle.push([offset, sizeBytes]);
  const slots = new Slots(Buffer.alloc(TEST_SLOTS_BYTES), onIdle, TEST_LAYOUT);
  const messageBytes = 10_000;
  for (let n = 0; n < 20; n++) {
    const slot = slots.arm();
    assert(slot !== undefined);
    slots.hold(slot, messageBytes);
  }
  const keptBytes = 3 * 4096;
  assert.equal(idle.length, 12, "all but the first eight");
  for (const [, sizeBytes] of idle) assert.equal(sizeBytes, (1 << 20) + 4096 - keptBytes);
});

test("memory of an earlier release with fewer slots is served as it is", () => {
  const memory = Buffer.alloc(TEST_SLOTS_BYTES);
  const slot = slotsIn(memory).arm();
  slot?.bytes.writeUInt32LE(40, 0);
  const layout = { receiveSlots: 2 * TEST_LAYOUT.receiveSlots, parkingSlots: 2048 };
  const later = new Slots(memory, () => undefined, layout);
  assert.equal(later.leftovers.length, 1);
  const armed = Array.from({ length: TEST_LAYOUT.receiveSlots - 1 }, () => later.arm());
  assert(armed.every((one) => one !== undefined));
  assert.equal(later.arm(), undefined);
  assert.throws(() => new Slots(memory, () => undefined, { receiveSlots: 8, parkingSlots: 8 }));
});
