import type { EngineMemory } from "../engine/engine.ts";
import { Slots, SLOTS_BYTES } from "../fuse/slots.ts";
import { isJournal, Journal, journalBytes } from "../journal/journal.ts";
import { noJournal } from "../journal/no-journal.ts";
import { replay } from "../journal/saved-state.ts";
import { extentOf } from "../journal/segment.ts";
import { Spool } from "../journal/spool.ts";
import { exitNow } from "../sys/exit-now.ts";
import { LazyMemory } from "../sys/memfd.ts";
import { EXIT_FENCED } from "./exit-status.ts";
import type { MountOptions } from "./mount-options.ts";

/**
 * Address space, not memory: pages are taken as they are used. There are places for 3,000 files
 * that are open with a part of the default size half filled.
 */
const SPOOL_BYTES_MIN = 32 * 1024 ** 3;
const PARTS_MIN = 16;
const CHUNK_BYTES_MIN = 32 << 20;

export interface DurableFds {
  readonly journalFd: number;
  readonly spoolFd: number;
}

export interface DurableMemory extends EngineMemory {
  readonly journal: ReturnType<typeof noJournal>;
}

/** Journal and spool in memory that others hold too: new, or as an earlier engine left them. */
export function openDurableMemory(fds: DurableFds, options: MountOptions): DurableMemory {
  const spool = openSpool(fds, options);
  if (!options.keepsJournal) return { journal: noJournal(), spool, saved: undefined };
  const memory = new LazyMemory(fds.journalFd, journalBytes(options.memory.journalAreaBytes));
  return { ...openJournal(memory), spool };
}

/** Requests that were not answered yet, in memory that others hold too. */
export function openSlots(fd: number, { memory: budget }: MountOptions): Slots {
  const memory = new LazyMemory(fd, SLOTS_BYTES);
  return new Slots(memory, memory.release, undefined, budget.maxWriteBytes);
}

function openSpool(fds: DurableFds, { engine, memory: budget }: MountOptions): Spool {
  // Twice the limit: segments of different sizes leave gaps between them.
  const placesBytes = Math.max(engine.writePartSizeBytes * PARTS_MIN, 2 * budget.spool.hardBytes);
  const spoolBytes = Math.max(SPOOL_BYTES_MIN, placesBytes);
  const chunkBytes = Math.max(CHUNK_BYTES_MIN, extentOf(engine.writePartSizeBytes));
  const memory = new LazyMemory(fds.spoolFd, spoolBytes, chunkBytes);
  return new Spool(memory, { ...budget.spool, chunkBytes, onIdle: memory.release });
}

function openJournal(memory: LazyMemory): Pick<DurableMemory, "journal" | "saved"> {
  const options = { onFenced: () => exitNow(EXIT_FENCED), onIdle: memory.release };
  if (!isJournal(memory)) {
    return { journal: Journal.begin(memory, options), saved: undefined };
  }
  const { journal, records } = Journal.resume(memory, options);
  return { journal, saved: replay(records) };
}
