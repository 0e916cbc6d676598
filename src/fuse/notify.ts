import { Buffer } from "node:buffer";
import { OUT_HEADER_BYTES, writeUint64 } from "./encode.ts";

const FUSE_NOTIFY_INVAL_ENTRY = 3;
const FUSE_NOTIFY_RESEND = 7;
const INVAL_ENTRY_OUT_BYTES = 16;

/** Asks the kernel to hand out again what was read from it and not answered. */
export function encodeResend(): Buffer {
  const bytes = Buffer.alloc(OUT_HEADER_BYTES);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeInt32LE(FUSE_NOTIFY_RESEND, 4);
  return bytes;
}

/** Tells the kernel to drop what it knows of a name; what nobody uses it then forgets. */
export function encodeInvalidEntry(parent: number, name: string): Buffer {
  const text = Buffer.from(`${name}\0`);
  const bytes = Buffer.alloc(OUT_HEADER_BYTES + INVAL_ENTRY_OUT_BYTES + text.length);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeInt32LE(FUSE_NOTIFY_INVAL_ENTRY, 4); // where a reply has its error; unique is 0
  writeUint64(bytes, parent, OUT_HEADER_BYTES);
  bytes.writeUInt32LE(text.length - 1, OUT_HEADER_BYTES + 8);
  text.copy(bytes, OUT_HEADER_BYTES + INVAL_ENTRY_OUT_BYTES);
  return bytes;
}
