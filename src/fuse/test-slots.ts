import type { Buffer } from "node:buffer";
import { Slots } from "./slots.ts";

/** Slots in memory of our own, which is emptied as the kernel would do it. */
export function slotsIn(memory: Buffer): Slots {
  return new Slots(memory, (offset, sizeBytes) => memory.fill(0, offset, offset + sizeBytes));
}
