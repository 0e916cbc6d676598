/** The limits of S3 for the parts of an upload. */
export interface PartLimits {
  /** Only the last part of an object may be smaller. */
  readonly minBytes: number;
  readonly countMax: number;
  /** The kernel's largest WRITE. */
  readonly writeBytesMax: number;
}

const S3_LIMITS: PartLimits = { minBytes: 5 << 20, countMax: 10_000, writeBytesMax: 1 << 20 };
/** Parts that may have the smallest size: so many of all that an object can have. */
const SMALL_SHARE = 1 / 10;

/**
 * The sizes at which parts leave. A part that is sent early, for want of memory, uses up one of the
 * parts that an object can have. So a file can have a tenth of them at the smallest size, or more
 * parts that are nearly full; all others are full. `guaranteedBytes` always fit into a file.
 */
export class PartSizes {
  readonly fullBytes: number;
  readonly #limits: PartLimits;

  constructor(fullBytes: number, limits = S3_LIMITS) {
    this.fullBytes = fullBytes;
    this.#limits = limits;
  }

  get countMax(): number {
    return this.#limits.countMax;
  }

  get guaranteedBytes(): number {
    const { countMax, minBytes } = this.#limits;
    const small = Math.floor(countMax * SMALL_SHARE);
    return small * Math.min(minBytes, this.fullBytes) + (countMax - small) * this.fullBytes;
  }

  /** The bytes that fit into a file behind so many parts. */
  roomBytes(parts: number): number {
    return (this.#limits.countMax - parts) * this.fullBytes;
  }

  /** From which size on a part may be sent that is not full, behind parts of `bytesBefore`. */
  earlyBytes(partNumber: number, bytesBefore: number): number {
    if (partNumber >= this.#limits.countMax) return this.fullBytes;
    const neededBytes = this.guaranteedBytes - bytesBefore - this.roomBytes(partNumber);
    return Math.min(this.fullBytes, Math.max(this.#limits.minBytes, neededBytes));
  }

  /** The size of a segment that can always be sent: the largest WRITE fits behind such a part. */
  sendableBytes(partNumber: number, bytesBefore: number): number {
    const earlyBytes = this.earlyBytes(partNumber, bytesBefore);
    return Math.min(this.fullBytes, earlyBytes + this.#limits.writeBytesMax);
  }
}
