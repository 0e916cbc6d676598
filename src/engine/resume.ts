import type { JournalRecord, OpenRecord } from "../journal/record.ts";
import type { SavedState, SavedUpload } from "../journal/saved-state.ts";
import type { Inode } from "./inode.ts";
import type { OpenFile, OpenFiles, Writer } from "./open-files.ts";
import type { ReadStream } from "./read-stream.ts";
import type { Upload } from "./upload.ts";

export interface RestoreDeps {
  inodeOf(id: number): Inode | undefined;
  streamOf(inode: Inode): ReadStream;
  uploadOf(inode: Inode, handle: number, saved: SavedUpload): Upload;
  /** Its end had begun; whoever asked for it may have left. */
  complete(writer: Writer): void;
}

/** What is open, as records. */
export function* openFileRecords(files: OpenFiles): Generator<JournalRecord, void, undefined> {
  for (const [handle, file] of files.acknowledged()) {
    yield openRecordOf(handle, file);
    if (file.do === "write") yield* file.upload.records;
    if (file.do === "list" && file.place !== undefined) {
      yield { is: "place", handle, ...file.place };
    }
  }
}

export function openRecordOf(handle: number, file: OpenFile): OpenRecord {
  const pid = file.do === "write" ? file.openedByPid : 0;
  return { is: "open", handle, id: file.inode.nodeid, how: file.do, pid };
}

/** Opens again what an earlier engine had open: same handles, same versions, same bytes. */
export function restoreOpenFiles(saved: SavedState, files: OpenFiles, deps: RestoreDeps): void {
  for (const [handle, { open, upload: savedUpload, place }] of saved.handles) {
    const inode = deps.inodeOf(open.id);
    if (inode === undefined) continue; // its opener was never told
    files.acknowledge(handle);
    if (open.how === "list") {
      files.set(handle, { do: "list", inode, stream: undefined, place });
    } else if (open.how === "read") {
      inode.addReader();
      files.set(handle, { do: "read", inode, stream: deps.streamOf(inode) });
    } else {
      const upload = deps.uploadOf(inode, handle, savedUpload);
      if (!upload.completed) inode.upload = upload;
      const writer: Writer = { do: "write", inode, upload, openedByPid: open.pid };
      files.set(handle, writer);
      if (inode.upload?.completing === true) deps.complete(writer);
    }
  }
}
