import { Buffer } from "node:buffer";
import type { InodeRecord } from "../journal/record.ts";
import type { Inode } from "./inode.ts";

/** A record's size without its path. */
const RECORD_BYTES = { file: 160, directory: 80 };

/** Plain, without spreading: this is done for every name that the kernel learns of. */
export function inodeRecordOf(inode: Inode, isBound: boolean, unique?: string): InodeRecord {
  const { object } = inode;
  return {
    is: "inode",
    id: inode.nodeid,
    path: inode.path,
    refs: inode.lookups,
    directory: inode.kind === "directory" ? true : undefined,
    local: inode.local ? true : undefined,
    emptied: inode.emptied ? true : undefined,
    unbound: isBound ? undefined : true,
    object: object && {
      etag: object.etag,
      size: object.sizeBytes,
      mtime: object.mtimeMs,
      archived: object.archived ? true : undefined,
    },
    unique,
  };
}

/** About how many bytes such a record takes; always the same for the same inode. */
export function recordBytesOf({ kind, path }: Inode): number {
  return RECORD_BYTES[kind] + Buffer.byteLength(path);
}
