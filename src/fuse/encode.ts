import { Buffer } from "node:buffer";
import type { Attributes, Entry, Opened } from "./file-system.ts";

export const OUT_HEADER_BYTES = 16;
export const ENTRY_OUT_BYTES = 128;
const ATTR_OUT_BYTES = 104;
const OPEN_OUT_BYTES = 16;
const S_IFREG = 0o100000;
const S_IFDIR = 0o040000;
const BLOCK_BYTES = 512;
const PREFERRED_IO_BYTES = 1 << 20;
const FOPEN_DIRECT_IO = 1 << 0;
const FOPEN_KEEP_CACHE = 1 << 1;
const FOPEN_NOFLUSH = 1 << 5;
const NAME_BYTES_MAX = 255;

/** Into fresh memory: what is zero is there already. */
export function writeUint64(bytes: Buffer, value: number, offset: number): void {
  bytes.writeUInt32LE(value % 0x1_0000_0000, offset);
  if (value > 0xffff_ffff) bytes.writeUInt32LE(Math.floor(value / 0x1_0000_0000), offset + 4);
}

/** `error` is positive here; the wire wants it negative. */
export function encodeOutHeader(unique: Buffer, error: number, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(OUT_HEADER_BYTES);
  header.writeUInt32LE(OUT_HEADER_BYTES + payloadBytes, 0);
  header.writeInt32LE(-error, 4);
  unique.copy(header, 8);
  return header;
}

export function encodeEntry(entry: Entry): Buffer {
  const bytes = Buffer.alloc(ENTRY_OUT_BYTES);
  setEntry(wordsOf(bytes), 0, entry);
  return bytes;
}

/** A nodeid of 0 with a validity: the kernel remembers that there is no such name. */
export function encodeAbsentEntry(validMs: number): Buffer {
  const bytes = Buffer.alloc(ENTRY_OUT_BYTES);
  setValidity(wordsOf(bytes), validMs, 4, 8);
  return bytes;
}

/** `at`: the index of its first word. */
export function setEntry(words: Uint32Array, at: number, { attributes, validMs }: Entry): void {
  setUint64(words, at, attributes.nodeid);
  // The generation stays 0: nodeids are never used twice.
  setValidity(words, validMs, at + 4, at + 8);
  setValidity(words, validMs, at + 6, at + 9);
  setAttributes(words, at + 10, attributes);
}

export function encodeAttributes({ attributes, validMs }: Entry): Buffer {
  const bytes = Buffer.alloc(ATTR_OUT_BYTES);
  const words = wordsOf(bytes);
  setValidity(words, validMs, 0, 2);
  setAttributes(words, 4, attributes);
  return bytes;
}

export function encodeOpened(opened: Opened): Buffer {
  const bytes = Buffer.alloc(OPEN_OUT_BYTES);
  writeUint64(bytes, opened.handle, 0);
  const flags =
    (opened.directIo ? FOPEN_DIRECT_IO : 0) |
    (opened.keepCache ? FOPEN_KEEP_CACHE : 0) |
    (opened.needsFlush ? 0 : FOPEN_NOFLUSH);
  bytes.writeUInt32LE(flags, 8);
  return bytes;
}

export function encodeWritten(sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(sizeBytes, 0);
  return bytes;
}

/**
 * A bucket has no size: the numbers are large enough that no program refuses to write for want of
 * space. Programs multiply blocks by their size into a signed 64-bit number, which must not wrap.
 */
export function encodeStatfs(): Buffer {
  const bytes = Buffer.alloc(80);
  const blocks = 2 ** 63 / PREFERRED_IO_BYTES - 1;
  for (const at of [0, 8, 16]) writeUint64(bytes, blocks, at);
  for (const at of [24, 32]) writeUint64(bytes, 2 ** 40, at);
  bytes.writeUInt32LE(PREFERRED_IO_BYTES, 40);
  bytes.writeUInt32LE(NAME_BYTES_MAX, 44);
  bytes.writeUInt32LE(PREFERRED_IO_BYTES, 48);
  return bytes;
}

/** Memory as the machine's own words of 32 bits, the order that FUSE has: the fastest to write. */
export function wordsOf(bytes: Buffer): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
}

/** As writeUint64; a word takes of a number what fits. */
export function setUint64(words: Uint32Array, at: number, value: number): void {
  words[at] = value;
  if (value > 0xffff_ffff) words[at + 1] = value / 0x1_0000_0000;
}

function setValidity(words: Uint32Array, ms: number, secondsAt: number, nanosecondsAt: number) {
  const seconds = Math.floor(ms / 1000);
  setUint64(words, secondsAt, seconds);
  words[nanosecondsAt] = (ms - seconds * 1000) * 1e6;
}

function setAttributes(words: Uint32Array, at: number, attributes: Attributes): void {
  const directory = attributes.kind === "directory";
  const seconds = Math.floor(attributes.mtimeMs / 1000);
  const nanoseconds = (attributes.mtimeMs - seconds * 1000) * 1e6;
  setUint64(words, at, attributes.nodeid); // ino
  setUint64(words, at + 2, attributes.sizeBytes);
  setUint64(words, at + 4, Math.ceil(attributes.sizeBytes / BLOCK_BYTES));
  setUint64(words, at + 6, seconds); // of atime, mtime and ctime
  setUint64(words, at + 8, seconds);
  setUint64(words, at + 10, seconds);
  words[at + 12] = nanoseconds;
  words[at + 13] = nanoseconds;
  words[at + 14] = nanoseconds;
  words[at + 15] = (directory ? S_IFDIR : S_IFREG) | attributes.mode;
  words[at + 16] = directory ? 2 : 1;
  words[at + 17] = attributes.uid;
  words[at + 18] = attributes.gid;
  words[at + 20] = PREFERRED_IO_BYTES;
}
