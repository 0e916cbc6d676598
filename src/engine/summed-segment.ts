import type { Buffer } from "node:buffer";
import type { Segment } from "../journal/segment.ts";
import type { RunningSum } from "../s3/object-store.ts";

/** Small enough to be still in the processor's cache when it is read a second time. */
const BLOCK_BYTES = 256 * 1024;

/** A part while its bytes come, or a small file: summed up while the processor has them at hand. */
export class SummedSegment {
  readonly segment: Segment;
  readonly #sum: RunningSum | undefined;

  /** Without a sum for what an earlier engine has filled: whoever sends it sums it up. */
  constructor(segment: Segment, sum?: RunningSum) {
    this.segment = segment;
    this.#sum = sum;
  }

  /** Copies bytes and writers to a larger place. */
  movedTo(larger: Segment): SummedSegment {
    larger.copy(this.segment);
    return new SummedSegment(larger, this.#sum);
  }

  get filledBytes(): number {
    return this.segment.filledBytes;
  }

  get bytes(): Buffer {
    return this.segment.bytes;
  }

  get sum(): string | undefined {
    return this.#sum?.value;
  }

  /** `unique`: the request that the bytes come with. */
  append(data: Uint8Array, unique?: string): void {
    if (unique !== undefined) this.segment.enterWriter(unique);
    for (let at = 0; at < data.length; at += BLOCK_BYTES) {
      const block = data.subarray(at, at + BLOCK_BYTES);
      this.#sum?.add(block);
      this.segment.append(block);
    }
  }
}
