import type { Buffer } from "node:buffer";
import { Slots, slotsBytes } from "./slots.ts";

/** Fewer slots than in a mount: memory of that size is made for each case. */
export const TEST_LAYOUT = { receiveSlots: 64, parkingSlots: 1024 };
export const TEST_SLOTS_BYTES = slotsBytes(TEST_LAYOUT);

/** For tests: slots in memory of the process, which is emptied as the kernel would do it. */
export function slotsIn(memory: Buffer): Slots {
  const onIdle = (offset: number, sizeBytes: number) =>
    void memory.fill(0, offset, offset + sizeBytes);
  return new Slots(memory, onIdle, TEST_LAYOUT);
}
