import type { JournalRecord, OpenRecord, ReleasedRecord } from "../journal/record.ts";
import type { SavedState, SavedUpload } from "../journal/saved-state.ts";
import type { Inode } from "./inode.ts";
import type { OpenFile, OpenFiles, Writer } from "./open-files.ts";
import type { ReadStream } from "./read-stream.ts";

export interface RestoreDeps {
  inodeOf(id: number): Inode | undefined;
  streamOf(inode: Inode): ReadStream;
  writerOf(inode: Inode, handle: number, pid: number, saved: SavedUpload): Writer;
  /** The upload's completion had begun; the caller that asked for it may have left. */
  complete(writer: Writer): void;
  /** The last descriptor was closed: the upload ends, and then the handle. */
  endUpload(handle: number, writer: Writer): void;
}

/** What is open, as records. */
export function* openFileRecords(files: OpenFiles): Generator<JournalRecord, void, undefined> {
  for (const [handle, file] of files.acknowledged()) {
    yield openRecordOf(handle, file);
    if (file.do === "write") yield* file.upload.records;
    if (file.do === "write" && file.isReleased) yield releasedRecordOf(handle);
    if (file.do === "list" && file.place !== undefined) {
      yield { is: "place", handle, ...file.place };
    }
  }
}

export function releasedRecordOf(handle: number): ReleasedRecord {
  return { is: "released", handle, optional: true };
}

export function openRecordOf(handle: number, file: OpenFile): OpenRecord {
  const pid = file.do === "write" ? file.openedByPid : 0;
  const bypassesCache = file.do === "read" && file.bypassesCache ? true : undefined;
  return { is: "open", handle, id: file.inode.nodeid, how: file.do, pid, bypassesCache };
}

/** Opens again what an earlier engine had open: same handles, same versions, same bytes. */
export function restoreOpenFiles(saved: SavedState, files: OpenFiles, deps: RestoreDeps): void {
  for (const [handle, { open, upload: savedUpload, place, released }] of saved.handles) {
    const inode = deps.inodeOf(open.id);
    if (inode === undefined) continue; // its opener was never told
    files.acknowledge(handle);
    if (open.how === "list") {
      files.set(handle, { do: "list", inode, stream: undefined, place });
    } else if (open.how === "read") {
      inode.addReader();
      const bypassesCache = open.bypassesCache === true;
      files.set(handle, { do: "read", inode, stream: deps.streamOf(inode), bypassesCache });
    } else {
      const writer = deps.writerOf(inode, handle, open.pid, savedUpload);
      if (!writer.upload.completed) inode.upload = writer.upload;
      files.set(handle, writer);
      writer.isReleased = released !== undefined;
      // Nobody knows what the last request was, but a RELEASE comes once.
      if (!writer.isReleased) writer.lastClose.expectRelease();
      if (writer.isReleased) deps.endUpload(handle, writer);
      else if (inode.upload?.completing === true) deps.complete(writer);
    }
  }
}
