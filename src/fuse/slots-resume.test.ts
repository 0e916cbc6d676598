import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { OPCODE } from "./opcode.ts";
import { isUnanswerable, Slots, slotsBytes } from "./slots.ts";
import type { Slot } from "./slots.ts";
import { slotsIn, TEST_SLOTS_BYTES } from "./test-slots.ts";

/** As far as one message at a time needs them: copies of all would be gigabytes. */
const FIRST_BYTES = 7 << 20;

function message(opcode: number, unique: bigint, bodyBytes = 8): Buffer {
  const bytes = Buffer.alloc(40 + bodyBytes, 0xab);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt32LE(opcode, 4);
  bytes.writeBigUInt64LE(unique, 8);
  return bytes;
}

function receive(slots: Slots, bytes: Buffer): Slot {
  const slot = slots.arm();
  assert(slot !== undefined);
  bytes.copy(slot.bytes);
  return slot;
}

function leftIn(memory: Buffer): Buffer[] {
  return slotsIn(memory).leftovers.map(({ slot, sizeBytes }) => slot.bytes.subarray(0, sizeBytes));
}

test("what was received and not released is found, in the order in which it was sent", () => {
  const memory = Buffer.alloc(TEST_SLOTS_BYTES);
  const slots = slotsIn(memory);
  assert.deepEqual(slots.leftovers, []);
  const resent = 0x8000_0000_0000_0004n;
  const sent = [
    message(OPCODE.WRITE, 10n, 100_000),
    message(OPCODE.LOOKUP, resent),
    message(OPCODE.FORGET, 6n),
    message(OPCODE.LOOKUP, 8n),
  ];
  const places = sent.map((bytes) => slots.park(receive(slots, bytes), bytes.length));
  const [write, lookup, forget, released] = places;
  assert(write !== undefined && lookup !== undefined && forget !== undefined);
  assert(released !== undefined);
  slots.release(released);
  assert.deepEqual(leftIn(memory), [sent[1], sent[2], sent[0]]);
  const { leftovers } = slotsIn(memory);
  assert.deepEqual(leftovers.map(isUnanswerable), [false, true, false]);
});

test("an INTERRUPT is found behind the request that it names, whether that was sent again or not", () => {
  const memory = Buffer.alloc(TEST_SLOTS_BYTES);
  const slots = slotsIn(memory);
  const RESENT = 1n << 63n;
  // The kernel sets bit 0 of the request's number for its INTERRUPT.
  const requests = [message(OPCODE.WRITE, 4n, 100_000), message(OPCODE.UNLINK, RESENT | 8n)];
  const interrupts = [message(OPCODE.INTERRUPT, 5n), message(OPCODE.INTERRUPT, RESENT | 9n)];
  for (const bytes of [...interrupts, ...requests]) slots.park(receive(slots, bytes), bytes.length);
  assert.deepEqual(leftIn(memory), [requests[0], interrupts[0], requests[1], interrupts[1]]);
});

test("places with a message are not given out before it is released", () => {
  const memory = Buffer.alloc(TEST_SLOTS_BYTES);
  receive(slotsIn(memory), message(OPCODE.WRITE, 2n, 100_000));
  const next = slotsIn(memory);
  const [leftover] = next.leftovers;
  assert(leftover !== undefined);
  const armed = Array.from({ length: 63 }, () => next.arm());
  assert(armed.every((slot) => slot !== undefined && slot.index !== leftover.slot.index));
  assert.equal(next.arm(), undefined);
  next.release(leftover.slot);
  assert.equal(next.arm(), leftover.slot);
});

const offsets = (from: number, size: number) => Array.from({ length: size }, (_, at) => from + at);

/** What a kill may leave: any number of the bytes that differ, in the order given. */
function* tornCopies(before: Buffer, after: Buffer, order: readonly number[]) {
  const torn = Buffer.from(before);
  yield Buffer.from(torn);
  for (const at of order) {
    torn[at] = after[at] ?? 0;
    yield Buffer.from(torn);
  }
}

test("a move that is interrupted anywhere neither loses the message nor makes a broken one", () => {
  const memory = Buffer.alloc(FIRST_BYTES);
  const slots = slotsIn(memory);
  const bytes = message(OPCODE.MKDIR, 2n);
  const slot = receive(slots, bytes);
  const before = Buffer.from(memory);
  const parked = slots.park(slot, bytes.length);
  const start = (place: Slot) => place.bytes.byteOffset - memory.byteOffset;
  // The stores in their order: the place is counted, the copy, its length at once, the length of
  // the old one at once.
  const counted = Buffer.from(before);
  counted.writeUInt32LE(1, 20);
  const copied = Buffer.from(counted);
  bytes.copy(copied, start(parked) + 4, 4);
  const torn = tornCopies(counted, copied, offsets(start(parked) + 4, bytes.length - 4));
  const stages = [before, ...torn];
  bytes.copy(copied, start(parked), 0, 4);
  stages.push(Buffer.from(copied));
  copied.fill(0, start(slot), start(slot) + 4);
  stages.push(...tornCopies(copied, memory, offsets(start(slot), 40)));
  assert.deepEqual(stages.at(-1), memory);
  for (const stage of stages.filter((_, index) => index % 8 === 0 || index > 40)) {
    assert.deepEqual(leftIn(stage), [bytes]);
  }
});

test("a release that is interrupted anywhere leaves the whole message or none", () => {
  const memory = Buffer.alloc(FIRST_BYTES);
  const slots = slotsIn(memory);
  const bytes = message(OPCODE.BATCH_FORGET, 2n, 1000);
  const slot = slots.park(receive(slots, bytes), bytes.length);
  const before = Buffer.from(memory);
  assert.deepEqual(leftIn(before), [bytes]);
  slots.release(slot);
  const start = slot.bytes.byteOffset - memory.byteOffset;
  before.fill(0, start, start + 4);
  for (let at = 40; at > 0; at -= 4) {
    assert.deepEqual(leftIn(Buffer.from(before)), []);
    before.fill(0, start + at - 4, start + at);
  }
});

const damages: [what: string, damage: (memory: Buffer) => unknown][] = [
  ["format N+2", (memory) => memory.writeUInt32LE(4, 4)],
  ["format 0", (memory) => memory.writeUInt32LE(0, 4)],
  ["magic", (memory) => memory.writeUInt32LE(7, 0)],
  ["more slots than this release has", (memory) => memory.writeUInt32LE(65, 8)],
  ["no slots", (memory) => memory.writeUInt32LE(0, 8)],
];
for (const [what, damage] of damages) {
  test(`slots that can't be understood are refused: ${what}`, () => {
    const memory = Buffer.alloc(TEST_SLOTS_BYTES);
    assert.equal(slotsIn(memory).leftovers.length, 0);
    damage(memory);
    assert.throws(
      () => slotsIn(memory),
      (error) => error instanceof Failure && error.kind === "invalid",
    );
  });
}

test("slots of the next format are read; a length that can't be is no message", () => {
  const memory = Buffer.alloc(TEST_SLOTS_BYTES);
  const slots = slotsIn(memory);
  receive(slots, message(OPCODE.MKDIR, 2n));
  for (const length of [39, 0x7fff_ffff])
    receive(slots, message(OPCODE.MKDIR, 4n)).length[0] = length;
  memory.writeUInt32LE(3, 4);
  assert.deepEqual(leftIn(memory), [message(OPCODE.MKDIR, 2n)]);
});

test("blocked writes never take the last slots, in memory of an older release with few too", () => {
  assert.equal(slotsIn(Buffer.alloc(TEST_SLOTS_BYTES)).blockedWritesMax, 40);
  const memory = Buffer.alloc(slotsBytes({ receiveSlots: 64, parkingSlots: 1024 }));
  const onIdle = (offset: number, sizeBytes: number) =>
    void memory.fill(0, offset, offset + sizeBytes);
  const older = new Slots(memory, onIdle, { receiveSlots: 64, parkingSlots: 1024 });
  assert(older.arm() !== undefined);
  const resumed = new Slots(memory, onIdle, { receiveSlots: 1024, parkingSlots: 4096 });
  const armed = Array.from({ length: resumed.blockedWritesMax }, () => resumed.arm());
  assert.equal(armed.includes(undefined), false);
  assert(resumed.arm() !== undefined, "other requests are received");
});
