import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";

/** Objects are cached in blocks of this size; a piece never reaches over the end of one. */
export const BLOCK_BYTES = 1 << 20;
/** A page of its own: the data behind it stays aligned. */
export const HEADER_BYTES = 4096;
/** What is verified at once: a small read need not check the whole piece. */
export const CHUNK_BYTES = 1 << 16;

/** With the version: a piece of another format is a foreign one. */
const MAGIC = "s3csi cache 1\n";
const SUMS_AT = HEADER_BYTES - (BLOCK_BYTES / CHUNK_BYTES) * 4;

/** What a piece is a part of: one version of one object of one bucket. */
export interface ObjectIdentity {
  readonly store: string;
  readonly key: string;
  readonly etag: string;
  /** Stands for the three in names of files. */
  readonly hash: string;
}

export interface Span {
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

export function identify(store: string, key: string, etag: string): ObjectIdentity {
  const text = JSON.stringify([store, key, etag]);
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 32);
  return { store, key, etag, hash };
}

/** Header and data in one buffer, whose data is there already. False: the names are too long. */
export function sealPiece(file: Buffer, object: ObjectIdentity, span: Span): boolean {
  const header = file.subarray(0, HEADER_BYTES);
  if (!writeNames(header, object, span)) return false;
  const data = file.subarray(HEADER_BYTES, HEADER_BYTES + span.sizeBytes);
  for (const [index, sum] of sumsOf(data).entries()) header.writeUInt32LE(sum, SUMS_AT + index * 4);
  return true;
}

/**
 * Whether these are the bytes of that piece, from `chunksFromBytes` on, which is a chunk's start.
 * The header is compared as a whole: only one that we would write ourselves is right.
 */
export function verifyPiece(
  header: Buffer,
  data: Buffer,
  piece: { readonly object: ObjectIdentity; readonly span: Span; readonly chunksFromBytes: number },
): boolean {
  const expected = Buffer.alloc(HEADER_BYTES);
  if (!writeNames(expected, piece.object, piece.span)) return false;
  const sumsUsed = Math.ceil(piece.span.sizeBytes / CHUNK_BYTES);
  header.copy(expected, SUMS_AT, SUMS_AT, SUMS_AT + sumsUsed * 4);
  if (!expected.equals(header)) return false;
  const first = piece.chunksFromBytes / CHUNK_BYTES;
  return sumsOf(data).every((sum, index) => {
    return header.readUInt32LE(SUMS_AT + (first + index) * 4) === sum;
  });
}

function writeNames(header: Buffer, object: ObjectIdentity, span: Span): boolean {
  const { store, key, etag } = object;
  const names = JSON.stringify([store, key, etag, span.offsetBytes, span.sizeBytes]);
  const text = Buffer.from(`${MAGIC}${names}\n`, "utf8");
  if (text.length > SUMS_AT) return false;
  header.fill(0);
  text.copy(header);
  return true;
}

function sumsOf(data: Buffer): number[] {
  const sums: number[] = [];
  for (let at = 0; at < data.length; at += CHUNK_BYTES) {
    sums.push(crc32(data.subarray(at, at + CHUNK_BYTES)));
  }
  return sums;
}
