import { Buffer } from "node:buffer";
import { ENTRY_OUT_BYTES, writeEntry, writeUint64 } from "./encode.ts";
import type { DirectoryItem, DirectoryListing } from "./file-system.ts";

const DIRENT_BYTES = 24;
const DT_DIR = 4;
const DT_REG = 8;
/** FUSE_UNKNOWN_INO of libfuse: a reader of d_ino learns that it has to ask. */
const UNKNOWN_INO = 0xffff_ffff;
export const DOTS: readonly DirectoryItem[] = [".", ".."].map((name) => {
  return { name, kind: "directory", nodeid: 0 };
});

export interface DirectoryPage {
  readonly bytes: Buffer;
  /** Nodeids given out in this page: taken back if the page never reaches the kernel. */
  readonly entered: readonly number[];
  /** Nobody looks at the bytes any more. */
  release(): void;
}

/** A character of JavaScript has 3 bytes at most. */
const CHARACTER_BYTES_MAX = 3;

/**
 * The memory of the last page, all zero, for the next one: fresh memory costs more than what is
 * written into it, and sets off the garbage collector.
 */
let spare: Buffer = Buffer.alloc(0);

/**
 * As many entries as fit. A position is the index of the next entry, with `.` and `..` first.
 * With `plus`, each entry is also a lookup; the two dots are not (their nodeid stays 0).
 */
export function encodeDirectoryPage(
  listing: DirectoryListing,
  position: number,
  sizeBytes: number,
  plus: boolean,
): DirectoryPage {
  const memory = takeMemory(sizeBytes);
  const direntAt = plus ? ENTRY_OUT_BYTES : 0;
  const entered: number[] = [];
  let used = 0;
  for (let index = position; ; index++) {
    const dot = DOTS[index];
    const item = dot ?? listing.item(index - DOTS.length);
    if (item === undefined) break;
    if (used + recordBytesOf(direntAt, nameBytesMax(item.name)) > sizeBytes) {
      if (used + recordBytesOf(direntAt, Buffer.byteLength(item.name)) > sizeBytes) break;
    }
    let nodeid = item.nodeid;
    if (plus && dot === undefined) {
      const entry = listing.enter(index - DOTS.length);
      if (entry === "gone") continue;
      if (entry !== "unknown") {
        writeEntry(memory, used, entry);
        nodeid = entry.attributes.nodeid;
        entered.push(nodeid);
      }
    }
    const nameBytes = writeDirent(memory, used + direntAt, item, nodeid, index + 1);
    used += recordBytesOf(direntAt, nameBytes);
  }
  const release = () => {
    memory.fill(0, 0, used);
    if (memory.length > spare.length) spare = memory;
  };
  return { bytes: memory.subarray(0, used), entered, release };
}

function takeMemory(sizeBytes: number): Buffer {
  const memory = spare.length >= sizeBytes ? spare : Buffer.alloc(sizeBytes);
  spare = Buffer.alloc(0);
  return memory;
}

function nameBytesMax(name: string): number {
  return name.length * CHARACTER_BYTES_MAX;
}

function recordBytesOf(direntAt: number, nameBytes: number): number {
  return direntAt + Math.ceil((DIRENT_BYTES + nameBytes) / 8) * 8;
}

/** How many bytes the name has. */
function writeDirent(
  bytes: Buffer,
  at: number,
  { name, kind }: DirectoryItem,
  nodeid: number,
  next: number,
): number {
  const nameBytes = bytes.write(name, at + DIRENT_BYTES, "utf8");
  writeUint64(bytes, nodeid === 0 ? UNKNOWN_INO : nodeid, at);
  writeUint64(bytes, next, at + 8);
  bytes.writeUInt32LE(nameBytes, at + 16);
  bytes.writeUInt32LE(kind === "directory" ? DT_DIR : DT_REG, at + 20);
  return nameBytes;
}
