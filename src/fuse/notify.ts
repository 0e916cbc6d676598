import { Buffer } from "node:buffer";
import { OUT_HEADER_BYTES, writeUint64 } from "./encode.ts";

const FUSE_NOTIFY_INVAL_INODE = 2;
const FUSE_NOTIFY_INVAL_ENTRY = 3;
const FUSE_NOTIFY_STORE = 4;
const FUSE_NOTIFY_RESEND = 7;
const INVAL_INODE_OUT_BYTES = 24;
const INVAL_ENTRY_OUT_BYTES = 16;
const STORE_OUT_BYTES = 24;

/** Asks the kernel to hand out again what was read from it and not answered. */
export function encodeResend(): Buffer {
  return notification(FUSE_NOTIFY_RESEND, 0);
}

/** Tells the kernel to drop what it knows of a name; what nobody uses it then forgets. */
export function encodeInvalidEntry(parent: number, name: string): Buffer {
  const text = Buffer.from(`${name}\0`);
  const bytes = notification(FUSE_NOTIFY_INVAL_ENTRY, INVAL_ENTRY_OUT_BYTES + text.length);
  writeUint64(bytes, parent, OUT_HEADER_BYTES);
  bytes.writeUInt32LE(text.length - 1, OUT_HEADER_BYTES + 8);
  text.copy(bytes, OUT_HEADER_BYTES + INVAL_ENTRY_OUT_BYTES);
  return bytes;
}

/** Tells the kernel to drop what it has of a file's contents: from byte 0, and no length is all. */
export function encodeInvalidPages(nodeid: number): Buffer {
  const bytes = notification(FUSE_NOTIFY_INVAL_INODE, INVAL_INODE_OUT_BYTES);
  writeUint64(bytes, nodeid, OUT_HEADER_BYTES);
  return bytes;
}

/** What stands before the contents of a file, from its first byte to its last. */
export function encodeStore(nodeid: number, sizeBytes: number): Buffer {
  const bytes = notification(FUSE_NOTIFY_STORE, STORE_OUT_BYTES, sizeBytes);
  writeUint64(bytes, nodeid, OUT_HEADER_BYTES);
  bytes.writeUInt32LE(sizeBytes, OUT_HEADER_BYTES + 16);
  return bytes;
}

/** With its header, whose length counts `behindBytes` as well. */
function notification(code: number, structBytes: number, behindBytes = 0): Buffer {
  const bytes = Buffer.alloc(OUT_HEADER_BYTES + structBytes);
  bytes.writeUInt32LE(bytes.length + behindBytes, 0);
  bytes.writeInt32LE(code, 4); // where a reply has its error; unique is 0
  return bytes;
}
