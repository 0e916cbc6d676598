import type { Buffer } from "node:buffer";

/** Memory that others hold too, looked at piece by piece. A Buffer is one. */
export interface SharedMemory {
  readonly length: number;
  /** The same bytes whenever it is asked for. */
  subarray(start: number, end: number): Buffer;
}
