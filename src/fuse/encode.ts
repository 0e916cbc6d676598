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
  writeEntry(bytes, 0, entry);
  return bytes;
}

/** A nodeid of 0 with a validity: the kernel remembers that there is no such name. */
export function encodeAbsentEntry(validMs: number): Buffer {
  const bytes = Buffer.alloc(ENTRY_OUT_BYTES);
  writeValidity(bytes, validMs, 16, 32);
  return bytes;
}

export function writeEntry(bytes: Buffer, at: number, { attributes, validMs }: Entry): void {
  writeUint64(bytes, attributes.nodeid, at);
  // The generation stays 0: nodeids are never used twice.
  writeValidity(bytes, validMs, at + 16, at + 32);
  writeValidity(bytes, validMs, at + 24, at + 36);
  writeAttributes(bytes, at + 40, attributes);
}

export function encodeAttributes({ attributes, validMs }: Entry): Buffer {
  const bytes = Buffer.alloc(ATTR_OUT_BYTES);
  writeValidity(bytes, validMs, 0, 8);
  writeAttributes(bytes, 16, attributes);
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

/** A bucket has no size: numbers large enough that nobody refuses to write for want of space. */
export function encodeStatfs(): Buffer {
  const bytes = Buffer.alloc(80);
  const blocks = 2 ** 43;
  for (const at of [0, 8, 16]) writeUint64(bytes, blocks, at);
  for (const at of [24, 32]) writeUint64(bytes, 2 ** 40, at);
  bytes.writeUInt32LE(PREFERRED_IO_BYTES, 40);
  bytes.writeUInt32LE(NAME_BYTES_MAX, 44);
  bytes.writeUInt32LE(PREFERRED_IO_BYTES, 48);
  return bytes;
}

function writeValidity(bytes: Buffer, ms: number, secondsAt: number, nanosecondsAt: number): void {
  const seconds = Math.floor(ms / 1000);
  writeUint64(bytes, seconds, secondsAt);
  bytes.writeUInt32LE(Math.floor((ms - seconds * 1000) * 1e6), nanosecondsAt);
}

function writeAttributes(bytes: Buffer, at: number, attributes: Attributes): void {
  const directory = attributes.kind === "directory";
  const seconds = Math.floor(attributes.mtimeMs / 1000);
  const nanoseconds = Math.floor((attributes.mtimeMs - seconds * 1000) * 1e6);
  writeUint64(bytes, attributes.nodeid, at); // ino
  writeUint64(bytes, attributes.sizeBytes, at + 8);
  writeUint64(bytes, Math.ceil(attributes.sizeBytes / BLOCK_BYTES), at + 16);
  for (const timeAt of [24, 32, 40]) writeUint64(bytes, seconds, at + timeAt);
  for (const timeAt of [48, 52, 56]) bytes.writeUInt32LE(nanoseconds, at + timeAt);
  bytes.writeUInt32LE((directory ? S_IFDIR : S_IFREG) | attributes.mode, at + 60);
  bytes.writeUInt32LE(directory ? 2 : 1, at + 64);
  bytes.writeUInt32LE(attributes.uid, at + 68);
  bytes.writeUInt32LE(attributes.gid, at + 72);
  bytes.writeUInt32LE(PREFERRED_IO_BYTES, at + 80);
}
