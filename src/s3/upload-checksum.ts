import { Buffer } from "node:buffer";
import type * as Crc from "@node-rs/crc32";
import type { RunningSum } from "./object-store.ts";

/** How one kind of checksum is computed, and what S3 calls it in headers and documents. */
export interface ChecksumKind {
  /** Of x-amz-checksum-algorithm, when an upload in parts begins. */
  readonly algorithm: string;
  readonly header: string;
  /** In the document that completes an upload. */
  readonly element: string;
  /** Its value is in base64, as S3 wants it. */
  start(): Promise<RunningSum>;
}

export const CHECKSUM_KINDS = {
  crc32: {
    algorithm: "CRC32",
    header: "x-amz-checksum-crc32",
    element: "ChecksumCRC32",
    start: async () => new Crc32Sum((await machineCode()).crc32),
  },
  crc32c: {
    algorithm: "CRC32C",
    header: "x-amz-checksum-crc32c",
    element: "ChecksumCRC32C",
    start: async () => new Crc32Sum((await machineCode()).crc32c),
  },
} as const satisfies Record<string, ChecksumKind>;

/** Loaded with the first upload: a mount that only reads starts without it. */
function machineCode(): Promise<typeof Crc> {
  return import("@node-rs/crc32");
}

class Crc32Sum implements RunningSum {
  readonly #crc: (data: Uint8Array, sum: number) => number;
  #sum = 0;

  constructor(crc: (data: Uint8Array, sum: number) => number) {
    this.#crc = crc;
  }

  add(data: Uint8Array): void {
    this.#sum = this.#crc(data, this.#sum);
  }

  get value(): string {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(this.#sum);
    return bytes.toString("base64");
  }
}

/** Of a body that is here as a whole. */
export async function checksumOf(kind: ChecksumKind, body: Uint8Array): Promise<string> {
  const sum = await kind.start();
  sum.add(body);
  return sum.value;
}
