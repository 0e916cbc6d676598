import { PosixFailure } from "./posix-failure.ts";
import { wholeCharge } from "../journal/segment.ts";
import type { Segment } from "../journal/segment.ts";
import type { Spool } from "../journal/spool.ts";

/** The largest segment for the first bytes of a file: most files are no larger. */
export const FIRST_SEGMENT_BYTES = 128 * 1024;
/** Of the hard limit, for files of which nothing but their first bytes is there. */
const SMALL_SHARE = 1 / 16;
const SMALL_BYTES_MAX = 16 << 20;

/** A file's part that is being filled, as the queue sees it. */
export interface SegmentHolder {
  readonly segment: { readonly segment: Segment } | undefined;
  /** A write to it is under way, or it is about to be sent. */
  readonly isBusy: boolean;
  /** The bytes that the segment has may be sent as a part. */
  readonly isSendable: boolean;
  /** Sends it, although its program may write on later. */
  sendIdle(): void;
}

/** A request of a writer for memory. */
interface Wish {
  /** Undefined where a new segment of `sizeBytes` is wanted. */
  readonly segment: Segment | undefined;
  readonly sizeBytes: number;
  /** The memory that the segment is to have. */
  readonly chargedBytes: number;
  /** With so much memory, the segment can leave for S3. */
  readonly enoughBytes: number;
  /** The first bytes of a file, and no more. */
  readonly isSmall?: boolean;
}

interface Waiting extends Wish {
  readonly grant: (segment: Segment | undefined) => void;
}

/**
 * Hands the spool's memory to writers, in the order in which they ask. Up to the soft limit every
 * request is granted. Beyond it writers wait while parts are in flight, because those return
 * memory by themselves. With nothing in flight the limit is exceeded, up to the hard limit: the
 * memory may belong to files whose programs write nothing at the moment, and only more memory lets
 * the others go on. Before anybody waits for such files, they give up what they have not filled,
 * and what may be sent as a part is sent.
 *
 * INVARIANT: only a request that makes a segment large enough to be sent takes the last `partBytes`
 * of the hard limit, which are enough for any file. So one writer can always fill a part, send it
 * and return its memory; writers that all hold a part half filled can't block each other for ever.
 * Memory that a holder gives up is enough for that holder to go on, so there is still one that can.
 *
 * Small files have a little memory of their own: most are closed, and return it, right away. The
 * journal does not say which segments are in it, so a successor counts all small ones there, even
 * if they are more than it has room for. None of them may use up the reserve, or the reserve would
 * be smaller after each death of an engine, until nobody could fill a part. For the same reason
 * memory is granted in whole pages, as a successor charges it.
 */
export class SpoolQueue {
  readonly #spool: Spool;
  readonly #partBytes: number;
  readonly #smallBytesMax: number;
  readonly #waiting: Waiting[] = [];
  readonly #inFlight = new Set<Segment>();
  readonly #holders = new Set<SegmentHolder>();
  /** Segments in the memory for small files, which leave it when they are to grow. */
  readonly #small = new Set<Segment>();
  #smallBytes = 0;

  /** `partBytes`: of a full part. Many segments can leave for S3 with less. */
  constructor(spool: Spool, partBytes: number) {
    this.#spool = spool;
    this.#partBytes = partBytes;
    this.#smallBytesMax = Math.min(SMALL_BYTES_MAX, Math.floor(spool.hardBytes * SMALL_SHARE));
  }

  /** Writers that wait for memory. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** From now on the holder is asked for memory that it does not need. */
  addHolder(holder: SegmentHolder): void {
    this.#holders.add(holder);
  }

  removeHolder(holder: SegmentHolder): void {
    this.#holders.delete(holder);
  }

  /** A holder may give up memory from now on that it could not before. */
  becameIdle(): void {
    this.#serve();
  }

  /** A new segment if it can be had at once. */
  tryTake(
    sizeBytes: number,
    chargedBytes = sizeBytes,
    enoughBytes = this.#partBytes,
  ): Segment | undefined {
    const wish = wishFor(undefined, sizeBytes, chargedBytes, enoughBytes);
    if (this.#waiting.length > 0 || !this.#fits(wish)) return undefined;
    return this.#spool.take(sizeBytes, wish.chargedBytes);
  }

  /** More memory for a segment if it can be had at once. */
  tryCharge(segment: Segment, chargedBytes: number, enoughBytes = this.#partBytes): boolean {
    const wish = wishFor(segment, segment.sizeBytes, chargedBytes, enoughBytes);
    if (this.#waiting.length > 0 || !this.#fits(wish)) return false;
    this.#charge(segment, wish.chargedBytes);
    return true;
  }

  /** A new segment, as soon as it is this writer's turn; undefined when `leaving` aborts before. */
  take(
    sizeBytes: number,
    chargedBytes: number,
    leaving: AbortSignal,
    enoughBytes = this.#partBytes,
  ): Promise<Segment | undefined> {
    return this.#wait(wishFor(undefined, sizeBytes, chargedBytes, enoughBytes), leaving);
  }

  /** A new segment for the first bytes of a file, likewise. */
  takeSmall(sizeBytes: number, leaving: AbortSignal): Promise<Segment | undefined> {
    const wish = wishFor(undefined, sizeBytes, sizeBytes, this.#partBytes);
    return this.#wait({ ...wish, isSmall: true }, leaving);
  }

  /** More memory for a segment, as soon as it is this writer's turn. */
  charge(
    segment: Segment,
    chargedBytes: number,
    leaving: AbortSignal,
    enoughBytes = this.#partBytes,
  ): Promise<Segment | undefined> {
    return this.#wait(wishFor(segment, segment.sizeBytes, chargedBytes, enoughBytes), leaving);
  }

  /** A segment that an earlier engine has filled. */
  claim(at: number, sizeBytes: number): Segment {
    const segment = this.#spool.claim(at, sizeBytes);
    if (sizeBytes <= wholeCharge(FIRST_SEGMENT_BYTES)) this.#addSmall(segment);
    return segment;
  }

  /** The segment is on its way to S3 and returns its memory by itself. */
  send(segment: Segment): void {
    this.#inFlight.add(segment);
  }

  /** S3 has the segment, or refused it; its upload may keep it. */
  sent(segment: Segment): void {
    if (this.#inFlight.delete(segment)) this.#serve();
  }

  give(segment: Segment): void {
    this.#inFlight.delete(segment);
    const wish = this.#waiting.find((waiting) => waiting.segment === segment);
    if (wish !== undefined) this.#drop(wish);
    this.#removeSmall(segment);
    this.#spool.give(segment);
    this.#serve();
  }

  #addSmall(segment: Segment): void {
    this.#small.add(segment);
    this.#smallBytes += segment.chargedBytes;
  }

  #removeSmall(segment: Segment): void {
    if (this.#small.delete(segment)) this.#smallBytes -= segment.chargedBytes;
  }

  #charge(segment: Segment, chargedBytes: number): void {
    this.#removeSmall(segment);
    this.#spool.charge(segment, chargedBytes);
  }

  async #wait(wish: Wish, leaving: AbortSignal): Promise<Segment | undefined> {
    if (wish.chargedBytes > this.#spool.hardBytes - this.#smallBytesMax) {
      throw new PosixFailure(
        "ENOMEM",
        `a part of ${wish.chargedBytes} bytes exceeds the memory for writes`,
      );
    }
    if (leaving.aborted) return undefined;
    const { promise, resolve: grant } = Promise.withResolvers<Segment | undefined>();
    const waiting: Waiting = { ...wish, grant };
    this.#waiting.push(waiting);
    const leave = () => this.#leave(waiting);
    leaving.addEventListener("abort", leave, { once: true });
    this.#serve();
    try {
      return await promise;
    } finally {
      leaving.removeEventListener("abort", leave);
    }
  }

  #leave(waiting: Waiting): void {
    this.#drop(waiting);
    this.#serve();
  }

  #drop(waiting: Waiting): void {
    const index = this.#waiting.indexOf(waiting);
    if (index === -1) return; // the memory was granted in this turn of the event loop
    this.#waiting.splice(index, 1);
    waiting.grant(undefined);
  }

  #serve(): void {
    while (this.#waiting.length > 0) {
      const index = this.#nextIndex();
      const [next] = index === -1 ? [] : this.#waiting.splice(index, 1);
      if (next !== undefined) next.grant(this.#grant(next));
      else if (this.#inFlight.size > 0 || !this.#reclaim()) return;
    }
  }

  #grant(wish: Wish): Segment {
    const isAmongSmall = !this.#fits(wish);
    if (wish.segment !== undefined) {
      this.#charge(wish.segment, wish.chargedBytes);
      return wish.segment;
    }
    const segment = this.#spool.take(wish.sizeBytes, wish.chargedBytes);
    if (isAmongSmall) this.#addSmall(segment);
    return segment;
  }

  /**
   * The first that waits. While nothing is in flight, and the first is kept from the reserve, a
   * writer that may take the reserve overtakes it: nobody else returns memory by itself. So does a
   * small file that fits into the memory for those.
   */
  #nextIndex(): number {
    const [first] = this.#waiting;
    if (first === undefined) return -1;
    if (this.#fits(first)) return 0;
    if (this.#inFlight.size > 0) return -1;
    return this.#waiting.findIndex((wish) => {
      return this.#fitsAmongSmall(wish) || (this.#isEnough(wish) && this.#fits(wish));
    });
  }

  /** Idle files give up what they have not filled; if that is nothing, a part is sent. */
  #reclaim(): boolean {
    let hasFreed = false;
    for (const holder of this.#holders) {
      const segment = holder.segment?.segment;
      if (segment === undefined || holder.isBusy) continue;
      const filled = Math.min(wholeCharge(segment.filledBytes), segment.chargedBytes);
      if (filled === segment.chargedBytes) continue;
      if (this.#small.has(segment)) this.#smallBytes -= segment.chargedBytes - filled;
      this.#spool.charge(segment, filled);
      hasFreed = true;
    }
    if (hasFreed) return true;
    const idle = this.#holders.values().find(({ isBusy, isSendable }) => !isBusy && isSendable);
    idle?.sendIdle();
    return false;
  }

  #isEnough({ chargedBytes, enoughBytes }: Wish): boolean {
    return chargedBytes >= enoughBytes;
  }

  #hasPlace({ segment, sizeBytes }: Wish): boolean {
    return segment !== undefined || this.#spool.hasPlaceFor(sizeBytes);
  }

  #fits(wish: Wish): boolean {
    const { limitBytes, hardBytes, usedBytes } = this.#spool;
    const beforeBytes = wish.segment?.chargedBytes ?? 0;
    const isSmall = wish.segment !== undefined && this.#small.has(wish.segment);
    const smallBytes = this.#smallBytes - (isSmall ? beforeBytes : 0);
    const usedThen = usedBytes - beforeBytes + wish.chargedBytes - smallBytes;
    const mayExceed = this.#inFlight.size === 0;
    if (usedThen > limitBytes && !mayExceed) return false;
    const reserveBytes = this.#isEnough(wish) ? 0 : this.#partBytes;
    const mainBytes = hardBytes - Math.max(smallBytes, this.#smallBytesMax);
    return usedThen + reserveBytes <= mainBytes && this.#hasPlace(wish);
  }

  #fitsAmongSmall(wish: Wish): boolean {
    if (wish.isSmall !== true || !this.#hasPlace(wish)) return false;
    return this.#smallBytes + wish.chargedBytes <= this.#smallBytesMax;
  }
}

function wishFor(
  segment: Segment | undefined,
  sizeBytes: number,
  askedBytes: number,
  enoughBytes: number,
): Wish {
  const chargedBytes = Math.min(wholeCharge(askedBytes), sizeBytes);
  return { segment, sizeBytes, chargedBytes, enoughBytes };
}
