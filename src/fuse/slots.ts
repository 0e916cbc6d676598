import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { SharedMemory } from "../base/shared-memory.ts";
import { WRITE_BYTES_MAX } from "./negotiate.ts";
import { OPCODE } from "./opcode.ts";
import { IN_HEADER_BYTES, uniqueKeyOf } from "./request.ts";

const PAGE_BYTES = 4096;
/** The kernel refuses a read(2) into less than max_write and the headers before it. */
const RECEIVE_SLOT_BYTES = WRITE_BYTES_MAX + PAGE_BYTES;
/** As many WRITEs can wait for S3 while other requests are served. */
const RECEIVE_SLOTS = 1024;
/** Receiving slots that blocked WRITEs never take, so that other requests are served. */
const RECEIVE_SLOTS_FREE = 24;
/** Slots that keep their memory between two requests: enough for a few writers. */
const RECEIVE_SLOTS_KEPT = 8;
const PARKING_SLOT_BYTES = PAGE_BYTES;
const PARKING_SLOTS = 4096;
const HEADER_BYTES = PAGE_BYTES;
const MAGIC = 0x53435346;
const FORMAT = 2;
/** In the header; 0 in memory that an older release has begun. */
const MAX_WRITE_AT = 24;

export interface SlotsLayout {
  readonly receiveSlots: number;
  readonly parkingSlots: number;
}

const LAYOUT: SlotsLayout = { receiveSlots: RECEIVE_SLOTS, parkingSlots: PARKING_SLOTS };

/** Address space: pages are taken as they are used. */
export const SLOTS_BYTES = slotsBytes(LAYOUT);

export function slotsBytes({ receiveSlots, parkingSlots }: SlotsLayout): number {
  return HEADER_BYTES + parkingSlots * PARKING_SLOT_BYTES + receiveSlots * RECEIVE_SLOT_BYTES;
}

/** A place for one message in the shared memory; its first word is 0 while it is free. */
export interface Slot {
  readonly bytes: Buffer;
  /** The buffer that read(2) may fill: the largest message fits. */
  readonly into: Buffer;
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
  readonly #layout: SlotsLayout;
  /** The largest WRITE that the kernel was told of when the memory was new. */
  readonly maxWriteBytes: number;
  /** How many of the receiving and of the parking places were ever used. */
  readonly #used: Uint32Array;
  readonly #parkingBytes: Buffer;
  readonly #receive: Slot[] = [];
  /** Without memory, as they are used only when many wait. */
  readonly #reserve: Slot[] = [];
  readonly #parking: Slot[] = [];
  /** Receiving slots whose pages are all mapped in this process. */
  readonly #mapped = new Set<Slot>();

  /**
   * `onIdle`: these bytes have to read as zero, and need no memory until they are used again.
   * `layout` and `maxWriteBytes`: of new memory. Memory of an earlier engine may have fewer slots,
   * and the kernel sends WRITEs of the size that it was told of then.
   */
  constructor(
    memory: SharedMemory,
    onIdle: (offset: number, sizeBytes: number) => void,
    layout = LAYOUT,
    maxWriteBytes = WRITE_BYTES_MAX,
  ) {
    const header = memory.subarray(0, HEADER_BYTES);
    this.#layout = checkHeader(header, layout, maxWriteBytes);
    this.maxWriteBytes = header.readUInt32LE(MAX_WRITE_AT) || WRITE_BYTES_MAX;
    this.#memory = memory;
    this.#onIdle = onIdle;
    this.#used = new Uint32Array(header.buffer, header.byteOffset + 16, 2);
    this.#parkingBytes = memory.subarray(HEADER_BYTES, this.#receiveSlotAt(0));
    const [received = 0, parked = 0] = this.#used;
    const found: Leftover[] = [];
    const look = (slot: Slot): void => {
      const leftover = leftoverIn(slot);
      if (leftover === undefined) this.release(slot);
      else found.push(leftover);
    };
    const { receiveSlots, parkingSlots } = this.#layout;
    for (let n = 0; n < Math.min(received, receiveSlots); n++) look(this.#receiveSlot(n));
    for (let n = 0; n < Math.min(parked, parkingSlots); n++) look(this.#parkingSlot(n));
    this.leftovers = this.#withoutDoubles(found);
  }

  /** WRITEs that may wait in their slots. A mount keeps the number of slots it has begun with. */
  get blockedWritesMax(): number {
    return Math.max(1, this.#layout.receiveSlots - RECEIVE_SLOTS_FREE);
  }

  /** A zeroed place to receive into; undefined when all are in use. */
  arm(): Slot | undefined {
    const slot =
      this.#receive.pop() ?? this.#reserve.pop() ?? this.#open(0, this.#layout.receiveSlots);
    if (slot === undefined || this.#mapped.has(slot)) return slot;
    // The pages are mapped now. A page fault in read(2) would cost the request when memory is short
    // or this process is killed at that moment: the kernel then answers EIO itself.
    slot.into.fill(0);
    this.#mapped.add(slot);
    return slot;
  }

  /** Moves a small message out of its large slot. Copy first: for a moment it may be twice. */
  park(slot: Slot, sizeBytes: number): Slot {
    if (slot.parking || sizeBytes > PARKING_SLOT_BYTES) return slot;
    const parked = this.#parking.pop() ?? this.#open(1, this.#layout.parkingSlots);
    if (parked === undefined) return slot;
    // Its length last: a message that is not complete does not count.
    slot.bytes.copy(parked.bytes, 4, 4, sizeBytes);
    parked.length.set(slot.length);
    this.release(slot);
    return parked;
  }

  /**
   * A large message has to wait. While only a few do, its slot stays as it is; else the memory
   * behind the message is returned, so that many small writes can wait in little memory.
   */
  hold(slot: Slot, sizeBytes: number): void {
    if (slot.parking || this.#busy <= RECEIVE_SLOTS_KEPT) return;
    const keptBytes = Math.ceil(sizeBytes / PAGE_BYTES) * PAGE_BYTES;
    if (keptBytes >= RECEIVE_SLOT_BYTES) return;
    this.#onIdle(this.#receiveSlotAt(slot.index) + keptBytes, RECEIVE_SLOT_BYTES - keptBytes);
    this.#mapped.delete(slot);
  }

  /** The length is cleared first: a message that is half gone does not count. */
  release(slot: Slot): void {
    slot.length[0] = 0;
    if (!slot.parking && slot.index >= RECEIVE_SLOTS_KEPT) {
      this.#onIdle(this.#receiveSlotAt(slot.index), RECEIVE_SLOT_BYTES);
      this.#mapped.delete(slot);
      this.#reserve.push(slot);
      return;
    }
    slot.bytes.fill(0, 0, IN_HEADER_BYTES);
    (slot.parking ? this.#parking : this.#receive).push(slot);
  }

  /** Receiving slots that hold a message or are armed. */
  get #busy(): number {
    return (this.#used[0] ?? 0) - this.#receive.length - this.#reserve.length;
  }

  /** A slot that was never used: counted first, so that a successor looks at it. */
  #open(kind: 0 | 1, max: number): Slot | undefined {
    const index = this.#used[kind] ?? 0;
    if (index >= max) return undefined;
    this.#used[kind] = index + 1;
    return kind === 0 ? this.#receiveSlot(index) : this.#parkingSlot(index);
  }

  #receiveSlot(index: number): Slot {
    const at = this.#receiveSlotAt(index);
    const bytes = this.#memory.subarray(at, at + RECEIVE_SLOT_BYTES);
    return slotIn(bytes, false, index, this.maxWriteBytes + PAGE_BYTES);
  }

  #receiveSlotAt(index: number): number {
    const parkingBytes = this.#layout.parkingSlots * PARKING_SLOT_BYTES;
    return HEADER_BYTES + parkingBytes + index * RECEIVE_SLOT_BYTES;
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

function slotIn(bytes: Buffer, parking: boolean, index: number, largestBytes?: number): Slot {
  const length = new Uint32Array(bytes.buffer, bytes.byteOffset, 1);
  return { bytes, into: bytes.subarray(0, largestBytes), length, parking, index };
}

/** Returns the layout that the memory has. */
function checkHeader(header: Buffer, layout: SlotsLayout, maxWriteBytes: number): SlotsLayout {
  const isNew = header.readUInt32LE(0) === 0;
  if (isNew) {
    header.writeUInt32LE(FORMAT, 4);
    header.writeUInt32LE(layout.receiveSlots, 8);
    header.writeUInt32LE(layout.parkingSlots, 12);
    header.writeUInt32LE(maxWriteBytes, MAX_WRITE_AT);
    header.writeUInt32LE(MAGIC, 0);
  }
  const format = header.readUInt32LE(4);
  const isRead = format === FORMAT || format === FORMAT + 1;
  const [receiveSlots, parkingSlots] = [header.readUInt32LE(8), header.readUInt32LE(12)];
  const isLarge = receiveSlots > layout.receiveSlots || parkingSlots > layout.parkingSlots;
  const fits = receiveSlots > 0 && !isLarge;
  if (header.readUInt32LE(0) !== MAGIC || !fits || !isRead) {
    const reads = `this release reads ${FORMAT} and ${FORMAT + 1}`;
    throw new Failure("invalid", `request slots of format ${format}: ${reads}`);
  }
  return { receiveSlots, parkingSlots };
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
