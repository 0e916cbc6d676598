/** Who reads slower is in no hurry, and would let a long GET wait. At first that can't be told. */
const HURRY_BYTES_PER_MS = (8 << 20) / 5000;
const LAP_LIMIT_MS_MIN = 1000;
/** One connection that is so fast needs no others beside it. */
const FAST_BYTES_PER_MS = 300_000;
/** One that is so slow does not only have a hiccup. */
const SLOW_BYTES_PER_MS = 100_000;
/** The first bytes are waited for longer than those that follow: nothing is judged before. */
const RUN_UP_BYTES = 16 << 20;
const RUN_UP_MS = 100;

/** How S3 keeps up with a reader, lap by lap: half a window, or more of a small one. */
export class Pace {
  readonly #isExpected: boolean;
  #isOutpaced: boolean;
  #readBytes = 0;
  #lapBytes = 0;
  #lapStartMs: number;
  #firstLapEndMs: number | undefined;
  #wasFull = false;
  /** In the last lap. */
  #wasAhead = false;

  /** `isExpected`: outpaced until it has shown to be not. */
  constructor(isExpected: boolean, nowMs: number) {
    this.#isExpected = isExpected;
    this.#isOutpaced = isExpected;
    this.#lapStartMs = nowMs;
  }

  /** S3 is faster than the reader, or as fast as anybody needs: one GET is enough. */
  get isOutpaced(): boolean {
    return this.#isOutpaced;
  }

  get lapBytes(): number {
    return this.#lapBytes;
  }

  /** It has read far enough for a long GET to have paid. */
  get isUnderWay(): boolean {
    return this.#readBytes >= RUN_UP_BYTES;
  }

  /** `isFull`: all that was asked for had arrived before. */
  read(sizeBytes: number, isFull: boolean): void {
    this.#readBytes += sizeBytes;
    this.#lapBytes += sizeBytes;
    this.#wasFull ||= isFull;
  }

  endLap(nowMs: number): void {
    const lapMs = nowMs - this.#lapStartMs;
    const isFast = this.#isOutpaced && this.#lapBytes > lapMs * FAST_BYTES_PER_MS;
    const isSlow = this.#lapBytes < lapMs * SLOW_BYTES_PER_MS;
    this.#firstLapEndMs ??= nowMs;
    const isEarly = !this.isUnderWay && nowMs - this.#firstLapEndMs < RUN_UP_MS;
    const isRunningUp = this.#isExpected && isEarly;
    const isAhead = this.#wasFull || isFast || isRunningUp;
    const isHiccup = this.#isOutpaced && this.#wasAhead && !isSlow;
    const isInHurry = lapMs <= Math.max(LAP_LIMIT_MS_MIN, this.#lapBytes / HURRY_BYTES_PER_MS);
    this.#isOutpaced = isInHurry && (isAhead || isHiccup);
    this.#wasAhead = isAhead;
    this.#lapBytes = 0;
    this.#lapStartMs = nowMs;
    this.#wasFull = false;
  }
}
