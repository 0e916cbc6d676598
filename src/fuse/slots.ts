import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { SharedMemory } from "../base/shared-memory.ts";
import { WRITE_BYTES_MAX } from "./negotiate.ts";
import { OPCODE } from "./opcode.ts";
import { IN_HEADER_BYTES, uniqueKeyOf } from "./request.ts";

const PAGE_BYTES = 4096;
/** The kernel refuses a read(2) into less than max_write and the headers before it. */
const RECEIVE_SLOT_BYTES = WRITE_BYTES_MAX + PAGE_BYTES;
/** So many WRITEs may wait for S3 and others are still served. */
const RECEIVE_SLOTS = 64;
/** What a few writers need is not given back between two of their requests. */
const RECEIVE_SLOTS_KEPT = 8;
const PARKING_SLOT_BYTES = PAGE_BYTES;
const PARKING_SLOTS = 1024;
const HEADER_BYTES = PAGE_BYTES;
const MAGIC = 0x53435346;
const FORMAT = 2;

/** Address space: pages are taken as they are used. */
export const SLOTS_BYTES =
  HEADER_BYTES + PARKING_SLOTS * PARKING_SLOT_BYTES + RECEIVE_SLOTS * RECEIVE_SLOT_BYTES;

/** A place for one message in the shared memory; its first word is 0 while it is free. */
export interface Slot {
  readonly bytes: Buffer;
  /** The message's length. A store to it is one that a kill can't split. */
  readonly length: Uint32Array;
  readonly parking: boolean;
  /** Among those of its size. */
  readonly index: number;
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
 * INVARIANT: a slot is free, armed, or holds exactly one unanswered message. Those beyond the
 * header's counts were never used.
 */
export class Slots {
  /** In the order in which the kernel has sent them. */
  readonly leftovers: readonly Leftover[];
  readonly #memory: SharedMemory;
  readonly #onIdle: (offset: number, sizeBytes: number) => void;
  /** How many of the receiving and of the parking places were ever used. */
  readonly #used: Uint32Array;
  readonly #parkingBytes: Buffer;
  readonly #receive: Slot[] = [];
  /** Without memory, as they are used only when many wait. */
  readonly #reserve: Slot[] = [];
  readonly #parking: Slot[] = [];
  /** Whose pages this process has. */
  readonly #mapped = new Set<Slot>();

  /** `onIdle`: these bytes have to read as zero, and need no memory until they are used again. */
  constructor(memory: SharedMemory, onIdle: (offset: number, sizeBytes: number) => void) {
    const header = memory.subarray(0, HEADER_BYTES);
    checkHeader(header);
    this.#memory = memory;
    this.#onIdle = onIdle;
    this.#used = new Uint32Array(header.buffer, header.byteOffset + 16, 2);
    this.#parkingBytes = memory.subarray(HEADER_BYTES, receiveSlotAt(0));
    const [received = 0, parked = 0] = this.#used;
    const found: Leftover[] = [];
    const look = (slot: Slot): void => {
      const leftover = leftoverIn(slot);
      if (leftover === undefined) this.release(slot);
      else found.push(leftover);
    };
    for (let n = 0; n < Math.min(received, RECEIVE_SLOTS); n++) look(this.#receiveSlot(n));
    for (let n = 0; n < Math.min(parked, PARKING_SLOTS); n++) look(this.#parkingSlot(n));
    this.leftovers = this.#withoutDoubles(found);
  }

  /** A zeroed place to receive into; undefined when all are in use. */
  arm(): Slot | undefined {
    const slot = this.#receive.pop() ?? this.#reserve.pop() ?? this.#open(0, RECEIVE_SLOTS);
    if (slot === undefined || this.#mapped.has(slot)) return slot;
    // Its pages are taken now. A page fault in read(2) would cost the request when memory is short
    // or this process is killed at that moment: the kernel then answers EIO itself.
    slot.bytes.fill(0);
    this.#mapped.add(slot);
    return slot;
  }

  /** Moves a small message out of its large slot. Copy first: for a moment it may be twice. */
  park(slot: Slot, sizeBytes: number): Slot {
    if (slot.parking || sizeBytes > PARKING_SLOT_BYTES) return slot;
    const parked = this.#parking.pop() ?? this.#open(1, PARKING_SLOTS);
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
    if (!slot.parking && slot.index >= RECEIVE_SLOTS_KEPT) {
      this.#onIdle(receiveSlotAt(slot.index), RECEIVE_SLOT_BYTES);
      this.#mapped.delete(slot);
      this.#reserve.push(slot);
      return;
    }
    slot.bytes.fill(0, 0, IN_HEADER_BYTES);
    (slot.parking ? this.#parking : this.#receive).push(slot);
  }

  /** One that was never used: counted first, so that whoever comes after us looks at it. */
  #open(kind: 0 | 1, max: number): Slot | undefined {
    const index = this.#used[kind] ?? 0;
    if (index >= max) return undefined;
    this.#used[kind] = index + 1;
    return kind === 0 ? this.#receiveSlot(index) : this.#parkingSlot(index);
  }

  #receiveSlot(index: number): Slot {
    const at = receiveSlotAt(index);
    return slotIn(this.#memory.subarray(at, at + RECEIVE_SLOT_BYTES), false, index);
  }

  #parkingSlot(index: number): Slot {
    const at = index * PARKING_SLOT_BYTES;
    return slotIn(this.#parkingBytes.subarray(at, at + PARKING_SLOT_BYTES), true, index);
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

function receiveSlotAt(index: number): number {
  return HEADER_BYTES + PARKING_SLOTS * PARKING_SLOT_BYTES + index * RECEIVE_SLOT_BYTES;
}

function slotIn(bytes: Buffer, parking: boolean, index: number): Slot {
  return { bytes, length: new Uint32Array(bytes.buffer, bytes.byteOffset, 1), parking, index };
}

function checkHeader(header: Buffer): void {
  const isNew = header.readUInt32LE(0) === 0;
  if (isNew) {
    header.writeUInt32LE(FORMAT, 4);
    header.writeUInt32LE(RECEIVE_SLOTS, 8);
    header.writeUInt32LE(PARKING_SLOTS, 12);
    header.writeUInt32LE(MAGIC, 0);
  }
  const format = header.readUInt32LE(4);
  const isRead = format === FORMAT || format === FORMAT + 1;
  const isOurs = header.readUInt32LE(0) === MAGIC && header.readUInt32LE(8) === RECEIVE_SLOTS;
  if (!isOurs || header.readUInt32LE(12) !== PARKING_SLOTS || !isRead) {
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
