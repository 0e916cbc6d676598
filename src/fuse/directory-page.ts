import { Buffer } from "node:buffer";
import { ENTRY_OUT_BYTES, setEntry, setUint64, wordsOf } from "./encode.ts";
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
  /** The position of the first entry that was not looked at. */
  readonly next: number;
  /** Nodeids given out in this page: taken back if the page never reaches the kernel. */
  readonly entered: readonly number[];
  /** Nobody looks at the bytes any more. */
  readonly release: () => void;
}

/**
 * The memory of the last page, all zero, for the next one: fresh memory costs more than what is
 * written into it, and sets off the garbage collector.
 */
let spare: Memory | undefined;

interface Memory {
  readonly bytes: Buffer;
  readonly words: Uint32Array;
}

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
  let index = position;
  for (; ; index++) {
    const dot = DOTS[index];
    const item = dot ?? listing.item(index - DOTS.length);
    if (item === undefined) break;
    const nameBytes = Buffer.byteLength(item.name);
    const recordBytes = direntAt + Math.ceil((DIRENT_BYTES + nameBytes) / 8) * 8;
    if (used + recordBytes > sizeBytes) break;
    let nodeid = item.nodeid;
    if (plus && dot === undefined) {
      const entry = listing.enter(index - DOTS.length);
      if (entry === "gone") continue;
      if (entry !== "unknown") {
        setEntry(memory.words, used >> 2, entry);
        nodeid = entry.attributes.nodeid;
        entered.push(nodeid);
      }
    }
    const { kind, name } = item;
    writeDirent(memory, used + direntAt, { nodeid, kind, name, nameBytes, next: index + 1 });
    used += recordBytes;
  }
  const release = () => {
    memory.bytes.fill(0, 0, used);
    spare = memory;
  };
  return { bytes: memory.bytes.subarray(0, used), next: index, entered, release };
}

interface Dirent extends DirectoryItem {
  readonly nameBytes: number;
  readonly next: number;
}

function writeDirent({ bytes, words }: Memory, at: number, dirent: Dirent): void {
  const first = at >> 2;
  setUint64(words, first, dirent.nodeid === 0 ? UNKNOWN_INO : dirent.nodeid);
  setUint64(words, first + 2, dirent.next);
  words[first + 4] = dirent.nameBytes;
  words[first + 5] = dirent.kind === "directory" ? DT_DIR : DT_REG;
  bytes.write(dirent.name, at + DIRENT_BYTES, "utf8");
}

function takeMemory(sizeBytes: number): Memory {
  const taken = spare;
  spare = undefined;
  if (taken !== undefined && taken.bytes.length >= sizeBytes) return taken;
  const bytes = Buffer.alloc(sizeBytes);
  return { bytes, words: wordsOf(bytes) };
}
