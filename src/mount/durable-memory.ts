import type { EngineMemory } from "../engine/engine.ts";
import { Slots, SLOTS_BYTES } from "../fuse/slots.ts";
import { isJournal, Journal, journalBytes } from "../journal/journal.ts";
import { noJournal } from "../journal/no-journal.ts";
import { replay } from "../journal/saved-state.ts";
import { extentOf, Spool } from "../journal/spool.ts";
import { exitNow } from "../sys/exit-now.ts";
import { LazyMemory } from "../sys/memfd.ts";
import { EXIT_FENCED } from "./exit-status.ts";
import type { MountOptions } from "./mount-options.ts";

const PAGE_BYTES = 4096;
/** Address space, not memory: pages are taken as they are used. */
const SPOOL_BYTES_MIN = 4 * 1024 ** 3;
const PARTS_MIN = 16;
const CHUNK_BYTES_MIN = 32 << 20;
const AREA_BYTES = { min: 16 << 20, max: 1 << 30 };
/** Of a record for an inode with a path of usual length. */
const INODE_RECORD_BYTES = 256;

export interface DurableFds {
  readonly journalFd: number;
  readonly spoolFd: number;
}

export interface DurableMemory extends EngineMemory {
  readonly journal: Pick<Journal, "note" | "commit" | "hasRoom" | "state">;
}

/** Journal and spool in memory that others hold too: new, or as an earlier engine left them. */
export function openDurableMemory(fds: DurableFds, options: MountOptions): DurableMemory {
  const spool = openSpool(fds, options);
  if (!options.keepsJournal) return { journal: noJournal(), spool, saved: undefined };
  const areaBytes = areaBytesFor(options.engine.inodesMax);
  const memory = new LazyMemory(fds.journalFd, journalBytes(areaBytes));
  return { ...openJournal(memory), spool };
}

/** Requests that were not answered yet, in memory that others hold too. */
export function openSlots(fd: number): Slots {
  const memory = new LazyMemory(fd, SLOTS_BYTES);
  return new Slots(memory, memory.release);
}

function openSpool(fds: DurableFds, { engine }: MountOptions): Spool {
  const spoolBytes = Math.max(SPOOL_BYTES_MIN, engine.writePartSizeBytes * PARTS_MIN);
  const chunkBytes = Math.max(CHUNK_BYTES_MIN, extentOf(engine.writePartSizeBytes));
  const memory = new LazyMemory(fds.spoolFd, spoolBytes, chunkBytes);
  const limitBytes = engine.memoryBytes / 2;
  return new Spool(memory, { chunkBytes, limitBytes, onIdle: memory.release });
}

function areaBytesFor(inodes: number): number {
  const pages = Math.ceil((inodes * INODE_RECORD_BYTES) / PAGE_BYTES);
  return Math.min(Math.max(pages * PAGE_BYTES, AREA_BYTES.min), AREA_BYTES.max);
}

function openJournal(memory: LazyMemory): Pick<DurableMemory, "journal" | "saved"> {
  const options = { onFenced: () => exitNow(EXIT_FENCED), onIdle: memory.release };
  if (!isJournal(memory)) {
    return { journal: Journal.begin(memory, options), saved: undefined };
  }
  const { journal, records } = Journal.resume(memory, options);
  return { journal, saved: replay(records) };
}
