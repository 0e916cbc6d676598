import { Buffer } from "node:buffer";
import type * as Crc from "@node-rs/crc32";

/** How one kind of checksum is computed, and what S3 calls it in headers and documents. */
export interface ChecksumKind {
  /** Of x-amz-checksum-algorithm, when an upload in parts begins. */
  readonly algorithm: string;
  readonly header: string;
  /** In the document that completes an upload. */
  readonly element: string;
  /** Base64, as S3 wants it. */
  of(body: Uint8Array): Promise<string>;
}

export const CHECKSUM_KINDS = {
  crc32: {
    algorithm: "CRC32",
    header: "x-amz-checksum-crc32",
    element: "ChecksumCRC32",
    of: async (body) => base64Of((await machineCode()).crc32(body)),
  },
  crc32c: {
    algorithm: "CRC32C",
    header: "x-amz-checksum-crc32c",
    element: "ChecksumCRC32C",
    of: async (body) => base64Of((await machineCode()).crc32c(body)),
  },
} as const satisfies Record<string, ChecksumKind>;

/** Loaded with the first upload: a mount that only reads starts without it. */
function machineCode(): Promise<typeof Crc> {
  return import("@node-rs/crc32");
}

function base64Of(sum: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(sum);
  return bytes.toString("base64");
}
