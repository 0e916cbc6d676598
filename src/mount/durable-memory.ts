import type { EngineMemory } from "../engine/engine.ts";
import { isJournal, Journal, journalBytes } from "../journal/journal.ts";
import { replay } from "../journal/saved-state.ts";
import type { SavedState } from "../journal/saved-state.ts";
import type { SharedMemory } from "../journal/shared-memory.ts";
import { Spool } from "../journal/spool.ts";
import { exitNow } from "../sys/exit-now.ts";
import { LazyMemory, releasePages } from "../sys/memfd.ts";
import { EXIT_FENCED } from "./exit-status.ts";
import type { MountOptions } from "./mount-options.ts";

const PAGE_BYTES = 4096;
/** Address space, not memory: pages are taken as they are used. */
const SPOOL_BYTES_MIN = 4 * 1024 ** 3;
const PARTS_MIN = 16;
const AREA_BYTES = { min: 16 << 20, max: 1 << 30 };
/** Of a record for an inode with a path of usual length. */
const INODE_RECORD_BYTES = 256;

export interface DurableFds {
  readonly journalFd: number;
  readonly spoolFd: number;
}

export interface DurableMemory extends EngineMemory {
  readonly journal: Journal;
}

/** Journal and spool in memory that others hold too: new, or as an earlier engine left them. */
export function openDurableMemory(fds: DurableFds, { engine }: MountOptions): DurableMemory {
  const areaBytes = areaBytesFor(engine.inodesMax);
  const memory = new LazyMemory(fds.journalFd, journalBytes(areaBytes));
  const { journal, saved } = openJournal(memory, fds.journalFd);
  const spoolBytes = Math.max(SPOOL_BYTES_MIN, engine.writePartSizeBytes * PARTS_MIN);
  const spoolMemory = new LazyMemory(fds.spoolFd, spoolBytes);
  const spool = new Spool(spoolMemory, {
    limitBytes: engine.memoryBytes / 2,
    onIdle: (offset, sizeBytes) => releasePages(fds.spoolFd, offset, sizeBytes),
  });
  return { journal, spool, saved };
}

function areaBytesFor(inodes: number): number {
  const pages = Math.ceil((inodes * INODE_RECORD_BYTES) / PAGE_BYTES);
  return Math.min(Math.max(pages * PAGE_BYTES, AREA_BYTES.min), AREA_BYTES.max);
}

function openJournal(memory: SharedMemory, fd: number): { journal: Journal; saved?: SavedState } {
  const options = {
    onFenced: () => exitNow(EXIT_FENCED),
    onIdle: (offset: number, sizeBytes: number) => releasePages(fd, offset, sizeBytes),
  };
  if (!isJournal(memory)) return { journal: Journal.begin(memory, options) };
  const { journal, records } = Journal.resume(memory, options);
  return { journal, saved: replay(records) };
}
