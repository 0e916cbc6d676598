import type { Buffer } from "node:buffer";
import { IN_HEADER_BYTES } from "./request.ts";
import { WRITE_BYTES_MAX } from "./negotiate.ts";

const PAGE_BYTES = 4096;
/** The kernel refuses a read(2) into less than max_write and the headers before it. */
const RECEIVE_SLOT_BYTES = WRITE_BYTES_MAX + PAGE_BYTES;
const RECEIVE_SLOTS = 8;
const PARKING_SLOT_BYTES = PAGE_BYTES;
const PARKING_SLOTS = 1024;
const HEADER_BYTES = PAGE_BYTES;
const MAGIC = 0x53435346;
const FORMAT = 1;

export const SLOTS_BYTES =
  HEADER_BYTES + RECEIVE_SLOTS * RECEIVE_SLOT_BYTES + PARKING_SLOTS * PARKING_SLOT_BYTES;

/** A place for one message in the shared memory; its first word is 0 while it is free. */
export interface Slot {
  readonly bytes: Buffer;
  readonly parking: boolean;
}

/**
 * Where requests live from read(2) to the reply, so that a request the kernel has handed out
 * outlives this process. A large place is needed only to receive (and for WRITE): all else moves
 * to a small one at once, so that thousands may wait for S3 in a few megabytes.
 * INVARIANT: a slot is free, armed, or holds exactly one unanswered message.
 */
export class Slots {
  readonly #receive: Slot[] = [];
  readonly #parking: Slot[] = [];

  constructor(memory: Buffer) {
    memory.writeUInt32LE(MAGIC, 0);
    memory.writeUInt32LE(FORMAT, 4);
    memory.writeUInt32LE(RECEIVE_SLOTS, 8);
    memory.writeUInt32LE(PARKING_SLOTS, 12);
    let at = HEADER_BYTES;
    const cut = (sizeBytes: number, parking: boolean): Slot => {
      const bytes = memory.subarray(at, at + sizeBytes);
      at += sizeBytes;
      bytes.fill(0, 0, IN_HEADER_BYTES);
      return { bytes, parking };
    };
    for (let n = 0; n < RECEIVE_SLOTS; n++) this.#receive.push(cut(RECEIVE_SLOT_BYTES, false));
    for (let n = 0; n < PARKING_SLOTS; n++) this.#parking.push(cut(PARKING_SLOT_BYTES, true));
  }

  /** A zeroed place to receive into; undefined when all are in use. */
  arm(): Slot | undefined {
    return this.#receive.pop();
  }

  /** Moves a small message out of its large slot. Copy first: for a moment it may be twice. */
  park(slot: Slot, sizeBytes: number): Slot {
    if (sizeBytes > PARKING_SLOT_BYTES) return slot;
    const parked = this.#parking.pop();
    if (parked === undefined) return slot;
    slot.bytes.copy(parked.bytes, 0, 0, sizeBytes);
    this.release(slot);
    return parked;
  }

  release(slot: Slot): void {
    slot.bytes.fill(0, 0, IN_HEADER_BYTES);
    (slot.parking ? this.#parking : this.#receive).push(slot);
  }
}
