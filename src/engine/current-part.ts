import { wholeCharge } from "../journal/segment.ts";
import type { Segment } from "../journal/segment.ts";
import type { ObjectStore } from "../s3/object-store.ts";
import type { PartSizes } from "./part-sizes.ts";
import { FIRST_SEGMENT_BYTES } from "./spool-queue.ts";
import type { SegmentHolder, SpoolQueue } from "./spool-queue.ts";
import { SummedSegment } from "./summed-segment.ts";

/** Memory is asked for in such steps: few for a large part, little in vain for an idle file. */
const CHARGE_STEP_BYTES = 1 << 20;

export interface CurrentPartDeps {
  readonly store: Pick<ObjectStore, "startSum">;
  readonly spool: SpoolQueue;
  readonly partSizes: PartSizes;
}

/** The upload, as the part that is being filled sees it. */
export interface PartOwner {
  partNumber(): number;
  /** Of the parts before it. */
  bytesBefore(): number;
  /** Notes where the part's bytes are from now on. */
  noteSegment(at: number, sizeBytes: number): void;
  /** Sends the part although it is not full. Returns early when `leaving` aborts. */
  sendEarly(leaving: AbortSignal): Promise<void>;
  /** A write is under way. */
  isBusy(): boolean;
  /** The upload goes on, and may have another part. */
  canSend(): boolean;
  /** Sends the part for others that wait for its memory. */
  sendIdle(): void;
  /** Aborts when the upload has failed. */
  readonly failed: AbortSignal;
}

/** The part of an upload that is being filled, and the memory for it. */
export class CurrentPart implements SegmentHolder {
  readonly #deps: CurrentPartDeps;
  readonly #owner: PartOwner;
  #segment: SummedSegment | undefined;

  constructor(deps: CurrentPartDeps, owner: PartOwner) {
    this.#deps = deps;
    this.#owner = owner;
  }

  get segment(): SummedSegment | undefined {
    return this.#segment;
  }

  get isBusy(): boolean {
    return this.#owner.isBusy();
  }

  get isSendable(): boolean {
    const earlyBytes = this.#deps.partSizes.earlyBytes(...this.#place);
    return this.filledBytes >= earlyBytes && this.#owner.canSend();
  }

  get filledBytes(): number {
    return this.#segment?.filledBytes ?? 0;
  }

  get isFull(): boolean {
    return this.filledBytes >= this.#deps.partSizes.fullBytes;
  }

  /** Bytes until the part is full. */
  get roomBytes(): number {
    // An earlier engine may have had larger parts, in a larger container.
    return Math.max(0, this.#deps.partSizes.fullBytes - this.filledBytes);
  }

  /** Takes a segment that an earlier engine has filled. */
  restore(segment: SummedSegment): void {
    this.#hold(segment);
  }

  /** The segment, which belongs to the caller from now on. */
  detach(): SummedSegment | undefined {
    const segment = this.#segment;
    this.#hold(undefined);
    return segment;
  }

  /** Appends the bytes if there is memory for them and the part stays short of full. */
  tryAppend(data: Uint8Array, unique: string | undefined): boolean {
    const segment = this.#segment;
    if (segment === undefined || data.length >= this.roomBytes) return false;
    if (!this.#hasMemoryFor(segment.segment, data.length)) return false;
    segment.append(data, unique);
    return true;
  }

  /** Appends the bytes as soon as there is memory; false when the caller leaves before. */
  async append(data: Uint8Array, unique: string | undefined, leaving: AbortSignal) {
    const segment = await this.#segmentFor(data.length, leaving);
    if (segment === undefined) return false;
    // The memory of a failed upload belongs to another one by now.
    this.#owner.failed.throwIfAborted();
    segment.append(data, unique);
    return true;
  }

  sendIdle(): void {
    this.#owner.sendIdle();
  }

  /** Returns the memory. */
  release(): void {
    const segment = this.detach();
    if (segment !== undefined) this.#deps.spool.give(segment.segment);
  }

  get #place(): [partNumber: number, bytesBefore: number] {
    return [this.#owner.partNumber(), this.#owner.bytesBefore()];
  }

  get #sendableBytes(): number {
    return this.#deps.partSizes.sendableBytes(...this.#place);
  }

  #hold(segment: SummedSegment | undefined): void {
    this.#segment = segment;
    if (segment === undefined) this.#deps.spool.removeHolder(this);
    else this.#deps.spool.addHolder(this);
  }

  /** Whether that much fits behind the part; asks for memory that can be had at once. */
  #hasMemoryFor(segment: Segment, sizeBytes: number): boolean {
    const neededBytes = segment.filledBytes + sizeBytes;
    if (neededBytes <= segment.chargedBytes) return true;
    if (neededBytes > segment.sizeBytes) return false;
    const chargedBytes = chargeFor(neededBytes, segment.sizeBytes);
    return this.#deps.spool.tryCharge(segment, chargedBytes, this.#sendableBytes);
  }

  /** The first part's segment grows with the file: most files are small. */
  async #segmentFor(sizeBytes: number, leaving: AbortSignal): Promise<SummedSegment | undefined> {
    const { store, spool } = this.#deps;
    const present = this.#segment;
    if (present !== undefined && this.#hasMemoryFor(present.segment, sizeBytes)) return present;
    let sum = present === undefined ? await store.startSum() : undefined;
    const neededBytes = this.filledBytes + sizeBytes;
    const capacityBytes = this.#capacityFor(neededBytes);
    const isTooSmall = present === undefined || neededBytes > present.segment.sizeBytes;
    const taken =
      (isTooSmall
        ? spool.tryTake(capacityBytes, chargeFor(neededBytes, capacityBytes), this.#sendableBytes)
        : undefined) ?? (await this.#waitForMemory(sizeBytes, leaving));
    if (taken === undefined) {
      this.#owner.failed.throwIfAborted();
      return undefined;
    }
    const former = this.#segment; // undefined again when it was sent early
    if (former?.segment === taken) return former;
    try {
      if (former === undefined) sum ??= await store.startSum();
      this.#owner.failed.throwIfAborted();
      // The bytes are in their new place before the journal says so.
      this.#hold(former?.movedTo(taken) ?? new SummedSegment(taken, sum));
      this.#owner.noteSegment(taken.at, taken.sizeBytes);
    } catch (error) {
      this.#hold(former);
      spool.give(taken);
      throw error;
    }
    if (former !== undefined) spool.give(former.segment);
    return this.#segment;
  }

  #capacityFor(neededBytes: number): number {
    const { fullBytes } = this.#deps.partSizes;
    let capacityBytes = this.#owner.partNumber() > 1 ? fullBytes : FIRST_SEGMENT_BYTES;
    while (capacityBytes < neededBytes) capacityBytes *= 4;
    return Math.min(capacityBytes, fullBytes);
  }

  /**
   * Memory is short. A segment that may be sent as a part is sent as it is, instead of growing;
   * else this writer waits for its turn, and asks for as much as lets it send a part. The first
   * bytes of a file ask for no more than they need.
   */
  async #waitForMemory(sizeBytes: number, leaving: AbortSignal): Promise<Segment | undefined> {
    const { spool, partSizes } = this.#deps;
    if (this.isSendable) {
      await this.#owner.sendEarly(leaving);
      if (leaving.aborted) return undefined;
    }
    const signal = AbortSignal.any([leaving, this.#owner.failed]);
    const present = this.#segment?.segment;
    if (
      present === undefined &&
      this.#owner.partNumber() === 1 &&
      sizeBytes <= FIRST_SEGMENT_BYTES
    ) {
      return spool.takeSmall(Math.min(wholeCharge(sizeBytes), partSizes.fullBytes), signal);
    }
    const enoughBytes = this.#sendableBytes;
    const chargedBytes = Math.max(enoughBytes, this.filledBytes + sizeBytes);
    return present !== undefined && chargedBytes <= present.sizeBytes
      ? spool.charge(present, chargedBytes, signal, enoughBytes)
      : spool.take(partSizes.fullBytes, chargedBytes, signal, enoughBytes);
  }
}

/** Memory for so many bytes of a segment of that size, and some more. */
function chargeFor(neededBytes: number, sizeBytes: number): number {
  const stepped = Math.ceil(neededBytes / CHARGE_STEP_BYTES) * CHARGE_STEP_BYTES;
  return Math.min(stepped, sizeBytes);
}
