import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import { WRITE_BYTES_MAX } from "./negotiate.ts";
import { OPCODE } from "./opcode.ts";
import { IN_HEADER_BYTES, uniqueKeyOf } from "./request.ts";

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
  /** The message's length. A store to it is one that a kill can't split. */
  readonly length: Uint32Array;
  readonly parking: boolean;
}

/** A message that an earlier process received and did not get rid of. */
export interface Leftover {
  readonly slot: Slot;
  readonly sizeBytes: number;
  readonly opcode: number;
}

/**
 * Where requests live from read(2) to the reply, so that a request the kernel has handed out
 * outlives this process. A large place is needed only to receive (and for WRITE): all else moves
 * to a small one at once, so that thousands may wait for S3 in a few megabytes.
 * INVARIANT: a slot is free, armed, or holds exactly one unanswered message.
 */
export class Slots {
  /** In the order in which the kernel has sent them. */
  readonly leftovers: readonly Leftover[];
  readonly #receive: Slot[] = [];
  readonly #parking: Slot[] = [];

  constructor(memory: Buffer) {
    const found: Leftover[] = [];
    checkHeader(memory);
    let at = HEADER_BYTES;
    const cut = (sizeBytes: number, parking: boolean): void => {
      const length = new Uint32Array(memory.buffer, memory.byteOffset + at, 1);
      const slot = { bytes: memory.subarray(at, at + sizeBytes), length, parking };
      at += sizeBytes;
      const leftover = leftoverIn(slot);
      if (leftover === undefined) this.release(slot);
      else found.push(leftover);
    };
    for (let n = 0; n < RECEIVE_SLOTS; n++) cut(RECEIVE_SLOT_BYTES, false);
    for (let n = 0; n < PARKING_SLOTS; n++) cut(PARKING_SLOT_BYTES, true);
    this.leftovers = this.#withoutDoubles(found);
  }

  /** A zeroed place to receive into; undefined when all are in use. */
  arm(): Slot | undefined {
    return this.#receive.pop();
  }

  /** Moves a small message out of its large slot. Copy first: for a moment it may be twice. */
  park(slot: Slot, sizeBytes: number): Slot {
    if (slot.parking || sizeBytes > PARKING_SLOT_BYTES) return slot;
    const parked = this.#parking.pop();
    if (parked === undefined) return slot;
    // Its length last: a message that is not complete does not count.
    slot.bytes.copy(parked.bytes, 4, 4, sizeBytes);
    parked.length.set(slot.length);
    this.release(slot);
    return parked;
  }

  /** Its length first: what is half gone does not count. */
  release(slot: Slot): void {
    slot.length[0] = 0;
    slot.bytes.fill(0, 0, IN_HEADER_BYTES);
    (slot.parking ? this.#parking : this.#receive).push(slot);
  }

  #withoutDoubles(found: readonly Leftover[]): Leftover[] {
    const single = new Map<string, Leftover>();
    for (const leftover of found) {
      const { bytes } = leftover.slot;
      const key = `${leftover.opcode} ${uniqueKeyOf(bytes.subarray(8, 16))}`;
      if (single.has(key)) this.release(leftover.slot);
      else single.set(key, leftover);
    }
    const order = ({ slot }: Leftover) => slot.bytes.readBigUInt64LE(8) & 0x7fff_ffff_ffff_ffffn;
    return [...single.values()].toSorted((left, right) => Number(order(left) - order(right)));
  }
}

function checkHeader(memory: Buffer): void {
  const isNew = memory.readUInt32LE(0) === 0;
  if (isNew) {
    memory.writeUInt32LE(FORMAT, 4);
    memory.writeUInt32LE(RECEIVE_SLOTS, 8);
    memory.writeUInt32LE(PARKING_SLOTS, 12);
    memory.writeUInt32LE(MAGIC, 0);
  }
  const format = memory.readUInt32LE(4);
  const isRead = format === FORMAT || format === FORMAT + 1;
  const isOurs = memory.readUInt32LE(0) === MAGIC && memory.readUInt32LE(8) === RECEIVE_SLOTS;
  if (!isOurs || memory.readUInt32LE(12) !== PARKING_SLOTS || !isRead) {
    const reads = `this release reads ${FORMAT} and ${FORMAT + 1}`;
    throw new Failure("invalid", `request slots of format ${format}: ${reads}`);
  }
}

function leftoverIn(slot: Slot): Leftover | undefined {
  const sizeBytes = slot.bytes.readUInt32LE(0);
  if (sizeBytes < IN_HEADER_BYTES || sizeBytes > slot.bytes.length) return undefined;
  return { slot, sizeBytes, opcode: slot.bytes.readUInt32LE(4) };
}

/** Asks for no reply, so the kernel does not send it again: it is lost if it is not served. */
export function isUnanswerable({ opcode }: Leftover): boolean {
  return opcode === OPCODE.FORGET || opcode === OPCODE.BATCH_FORGET;
}
