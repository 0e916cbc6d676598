import assert from "node:assert/strict";
import { test } from "node:test";
import { Slots, SLOTS_BYTES } from "./slots.ts";

test("a small message moves to a parking place and frees the large one", () => {
  const slots = new Slots(Buffer.alloc(SLOTS_BYTES));
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
  const slots = new Slots(Buffer.alloc(SLOTS_BYTES));
  const armed = Array.from({ length: 8 }, () => slots.arm());
  assert.equal(new Set(armed).size, 8);
  assert.equal(slots.arm(), undefined);
  const [first] = armed;
  assert(first !== undefined);
  assert.equal(slots.park(first, 5000), first);
  slots.release(first);
  assert.equal(slots.arm(), first);
});
