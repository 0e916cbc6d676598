import { Failure } from "../base/failure.ts";
import type { CacheMemory } from "../cache/disk-cache.ts";
import { MEMORY_LIMIT_MIB_MIN } from "../volume/engine.ts";

const MIB = 1 << 20;
const PAGE_BYTES = 4096;
const CONTAINER_BYTES_MIN = MEMORY_LIMIT_MIB_MIN.s3csi * MIB;
/** The rest is for the kernel's own pages, and for what nobody has thought of. */
const USABLE_SHARE = 0.9;
/** Supervisor and engine: 25 MiB when idle (measured), and their code, requests and listings. */
const PROCESSES_BYTES = 36 * MIB;
/** Places of the request slots that are always there, however few writers wait. */
const SLOTS = { PARKED_BYTES: 4 * MIB, KEPT: 8 } as const;
/** A name of usual length, twice: garbage, and the records that a successor reads. */
const NAME_HEAP_BYTES = 1280;
/** A record of the journal, with room for changes. Both areas are full during a compaction. */
const NAME_AREA_BYTES = 384;
const NAME_BYTES = NAME_HEAP_BYTES + 2 * NAME_AREA_BYTES;
/** By default, and of what is left besides the processes when somebody wants more. */
const NAMES_SHARE = { USUAL: 0.35, MAX: 0.42 } as const;
/** Of what names leave: WRITE requests that wait, and pieces on their way to a cache. */
const HELD_SHARE = 0.2;
const CACHE_SHARE = 0.15;
/** Of the index of a cache, for each of its files. */
const CACHED_PIECE_BYTES = 400;
/** Of what all these leave. */
const READS_SHARE = { USUAL: 0.45, MAX: 0.55 } as const;
/** Buffers of readers that are kept for the next one, beside those in use. */
const IDLE_READS_SHARE = 1 / 2;
const WRITERS_HELD = 500;
/** A large one is faster. In a small container the writers that wait shall fit. */
const WRITE_BYTES = { MIN: 64 * 1024, SMALL_MAX: 256 * 1024, MAX: MIB } as const;
const LARGE_CONTAINER_BYTES = 1024 * MIB;
const AREA_BYTES = { min: 16 * MIB, max: 1024 * MIB } as const;
/** However few names there may be: a file of 10,000 parts has room, with 144 bytes for each. */
const SMALL_AREA_BYTES = 2.5 * MIB;
/** S3 takes no smaller ones, besides the last one of an object. */
const SMALL_PART_BYTES = 5 * MIB + 2 * PAGE_BYTES;
/** Of a record for an inode with a path of usual length. */
const INODE_RECORD_BYTES = 256;

/** Free memory of the spool that is kept for the next writer in a container. */
const SMALL_KEPT_BYTES = 4 * MIB;

/** Where there is no limit. */
const USUAL = {
  INODES: 200_000,
  TARGET_BYTES: { min: 64 * MIB, max: 512 * MIB },
  SPOOL_BYTES: 4096 * MIB,
  KEPT_BYTES: 32 * MIB,
  PART_BYTES: 8 * MIB,
  HELD_BYTES: 2 * WRITERS_HELD * (WRITE_BYTES.MAX + PAGE_BYTES),
  CACHE: { pendingBytes: 32 * MIB, pieces: 1 << 18 },
} as const;

export interface MemoryWishes {
  /** Undefined: without a limit of its own. */
  readonly containerBytes: number | undefined;
  readonly machineBytes: number;
  /** Options, undefined when they were not given. */
  readonly targetBytes: number | undefined;
  readonly inodes: number | undefined;
  readonly writePartBytes: number | undefined;
  readonly hasCache: boolean;
}

/** An option that asks for more than there is. */
export interface ReducedOption {
  readonly option: string;
  readonly given: number;
  readonly used: number;
}

/** How much of everything a mount may hold. Their sum fits into the container. */
export interface MemoryBudget {
  /** In use by readers. Half as much may be kept for reuse. */
  readonly readBytes: number;
  readonly spool: {
    /** Writers wait for their own parts beyond it. */
    readonly limitBytes: number;
    /** Never exceeded. */
    readonly hardBytes: number;
    /** Free pages that stay, for the next writer. */
    readonly keptBytes: number;
  };
  readonly writePartBytes: number;
  readonly inodes: number;
  /** There are two of them. */
  readonly journalAreaBytes: number;
  /** WRITE requests that wait in their slots. */
  readonly heldWriteBytes: number;
  /** The largest WRITE request that is agreed on with the kernel. */
  readonly maxWriteBytes: number;
  readonly cache: CacheMemory;
  readonly reduced: readonly ReducedOption[];
}

/** Without a container's limit the sizes follow the machine and the options alone. */
export function memoryBudget(wishes: MemoryWishes): MemoryBudget {
  const { containerBytes } = wishes;
  if (containerBytes === undefined) return unlimited(wishes);
  if (containerBytes < CONTAINER_BYTES_MIN) {
    const limit = `a memory limit of ${Math.floor(containerBytes / MIB)} MiB is too small`;
    const least = `at least ${CONTAINER_BYTES_MIN / MIB} MiB are needed`;
    // Not "invalid", which ends a mount at once: in a container with a corrected limit it goes on.
    throw new Failure("refused", `${limit}: ${least}`);
  }
  return limited(containerBytes, wishes);
}

/** The memory that a mount takes at most, with all budgets used up. */
export function totalBytesOf(budget: MemoryBudget): number {
  return (
    fixedBytes(budget.maxWriteBytes) +
    budget.inodes * NAME_HEAP_BYTES +
    2 * budget.journalAreaBytes +
    budget.heldWriteBytes +
    bytesOfCache(budget.cache) +
    budget.readBytes * (1 + IDLE_READS_SHARE) +
    budget.spool.hardBytes
  );
}

export function nameHeapBytesOf({ inodes }: MemoryBudget): number {
  return inodes * NAME_HEAP_BYTES;
}

function unlimited(wishes: MemoryWishes): MemoryBudget {
  const { machineBytes, inodes = USUAL.INODES, writePartBytes = USUAL.PART_BYTES } = wishes;
  const targetBytes = wishes.targetBytes ?? usualTarget(machineBytes);
  return {
    readBytes: targetBytes,
    spool: {
      limitBytes: targetBytes / 2,
      hardBytes: Math.max(2 * writePartBytes, Math.min(USUAL.SPOOL_BYTES, machineBytes / 2)),
      keptBytes: USUAL.KEPT_BYTES,
    },
    writePartBytes,
    inodes,
    journalAreaBytes: wholePages(inodes * INODE_RECORD_BYTES, AREA_BYTES),
    heldWriteBytes: Math.min(USUAL.HELD_BYTES, machineBytes / 4),
    maxWriteBytes: WRITE_BYTES.MAX,
    cache: USUAL.CACHE,
    reduced: [],
  };
}

function limited(containerBytes: number, wishes: MemoryWishes): MemoryBudget {
  const isLarge = containerBytes >= LARGE_CONTAINER_BYTES;
  const largestWrite = isLarge ? WRITE_BYTES.MAX : WRITE_BYTES.SMALL_MAX;
  const freeBytes = containerBytes * USABLE_SHARE - fixedBytes(largestWrite);
  const names = namesOf(freeBytes, wishes);
  const left = freeBytes - names.inodes * NAME_HEAP_BYTES - 2 * names.journalAreaBytes;
  const heldWriteBytes = Math.floor(Math.min(USUAL.HELD_BYTES, left * HELD_SHARE));
  const cache = cacheOf(wishes.hasCache ? left * CACHE_SHARE : 0);
  const dataBytes = left - heldWriteBytes - bytesOfCache(cache);
  const budget = {
    ...names,
    ...dataOf(dataBytes, containerBytes, wishes),
    heldWriteBytes,
    maxWriteBytes: writeBytesFor(heldWriteBytes, largestWrite),
    cache,
  };
  return { ...budget, reduced: reducedOf(wishes, budget) };
}

function namesOf(freeBytes: number, wishes: MemoryWishes) {
  const [share, wanted] =
    wishes.inodes === undefined
      ? [NAMES_SHARE.USUAL, USUAL.INODES]
      : [NAMES_SHARE.MAX, wishes.inodes];
  const inodes = Math.min(wanted, Math.floor((freeBytes * share) / NAME_BYTES));
  const area = { min: SMALL_AREA_BYTES, max: AREA_BYTES.max };
  return { inodes, journalAreaBytes: wholePages(inodes * NAME_AREA_BYTES, area) };
}

function cacheOf(bytes: number): CacheMemory {
  const { pendingBytes, pieces } = USUAL.CACHE;
  return {
    pendingBytes: Math.floor(Math.min(pendingBytes, bytes / 2)),
    pieces: Math.floor(Math.min(pieces, bytes / 2 / CACHED_PIECE_BYTES)),
  };
}

function bytesOfCache({ pendingBytes, pieces }: CacheMemory): number {
  return pendingBytes + pieces * CACHED_PIECE_BYTES;
}

/** Readers get what they want up to a share, writers the rest: their bytes can't be dropped. */
function dataOf(dataBytes: number, containerBytes: number, wishes: MemoryWishes) {
  const { targetBytes, writePartBytes = USUAL.PART_BYTES } = wishes;
  const wantedBytes = targetBytes ?? usualTarget(containerBytes);
  const share = targetBytes === undefined ? READS_SHARE.USUAL : READS_SHARE.MAX;
  const readableBytes = Math.min(dataBytes * share, dataBytes - 2 * SMALL_PART_BYTES);
  const readBytes = Math.min(wantedBytes, Math.floor(readableBytes / (1 + IDLE_READS_SHARE)));
  const restBytes = dataBytes - readBytes * (1 + IDLE_READS_SHARE);
  const hardBytes = pagesBelow(Math.min(USUAL.SPOOL_BYTES, restBytes));
  return {
    readBytes,
    spool: {
      limitBytes: Math.min(wantedBytes / 2, (hardBytes * 3) / 4),
      hardBytes,
      keptBytes: Math.min(SMALL_KEPT_BYTES, pagesBelow(hardBytes / 4)),
    },
    // Two have room: one that is sent, and one that is filled meanwhile.
    writePartBytes: Math.min(writePartBytes, pagesBelow(hardBytes / 2) - PAGE_BYTES),
  };
}

function reducedOf(wishes: MemoryWishes, budget: Omit<MemoryBudget, "reduced">): ReducedOption[] {
  const all: [option: string, given: number | undefined, used: number][] = [
    ["--memory-target", inMib(wishes.targetBytes), inMib(budget.readBytes)],
    ["--inode-limit", wishes.inodes, budget.inodes],
    ["--write-part-size", wishes.writePartBytes, budget.writePartBytes],
  ];
  return all.flatMap(([option, given, used]) => {
    return given === undefined || used >= given ? [] : [{ option, given, used }];
  });
}

function inMib(bytes: number): number;
function inMib(bytes: number | undefined): number | undefined;
function inMib(bytes: number | undefined): number | undefined {
  return bytes === undefined ? undefined : Math.floor(bytes / MIB);
}

/** A quarter of what there is; the rest is for everybody else. */
function usualTarget(availableBytes: number): number {
  const { min, max } = USUAL.TARGET_BYTES;
  return Math.min(Math.max(availableBytes / 4, min), max);
}

function fixedBytes(writeBytes: number): number {
  return PROCESSES_BYTES + SLOTS.PARKED_BYTES + SLOTS.KEPT * (writeBytes + PAGE_BYTES);
}

/** The largest size with which that many writers can wait. */
function writeBytesFor(heldBytes: number, largestBytes: number): number {
  let writeBytes = largestBytes;
  while (writeBytes > WRITE_BYTES.MIN && WRITERS_HELD * (writeBytes + PAGE_BYTES) > heldBytes) {
    writeBytes /= 2;
  }
  return writeBytes;
}

function wholePages(bytes: number, { min, max }: { readonly min: number; readonly max: number }) {
  return Math.min(Math.max(Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES, min), max);
}

function pagesBelow(bytes: number): number {
  return Math.floor(bytes / PAGE_BYTES) * PAGE_BYTES;
}
