import { statfsSync } from "node:fs";
import { totalmem } from "node:os";
import { containerMemory } from "../base/container-memory.ts";
import { Failure } from "../base/failure.ts";
import { memoryBudget } from "./memory-budget.ts";
import type { MemoryBudget } from "./memory-budget.ts";
import { matching, wholeNumber } from "./option-values.ts";

const MIB = 1 << 20;
/** statfs(2): what a memory-backed emptyDir is. */
const TMPFS_MAGIC = 0x0102_1994;
const ATTEMPTS_DEFAULT = 10;
const OUTAGE_LIMIT_DEFAULT_S = "60";
/** Time that a request may take beside the outage: a free connection, silence, a slow answer. */
const REQUEST_MARGIN_MS = 60_000;
const TARGET_BOUNDS = { min: 64, max: 1 << 20 };
const INODE_BOUNDS = { min: 100, max: 100_000_000 };

export interface CacheOptions {
  readonly directory: string;
  /** Undefined: all of the file system but a share that stays free. */
  readonly limitBytes: number | undefined;
}

/** As the command line has them; undefined where an option was not given. */
export interface MemoryOptions {
  readonly target: string | undefined;
  readonly inodeLimit: string | undefined;
  readonly writePartBytes: number | undefined;
  readonly hasCache: boolean;
  /** Of a cache on a file system in memory, which the container's limit counts too. */
  readonly cacheInMemoryBytes?: number;
}

export function memoryOf(
  { target, inodeLimit, writePartBytes, hasCache, cacheInMemoryBytes = 0 }: MemoryOptions,
  containerBytes = containerMemory(),
): MemoryBudget {
  const numberOf = (name: string, given: string | undefined, bounds: typeof INODE_BOUNDS) =>
    given === undefined ? undefined : wholeNumber(name, given, bounds);
  const targetMib = numberOf("memory-target", target, TARGET_BOUNDS);
  return memoryBudget({
    containerBytes: containerBytes === undefined ? undefined : containerBytes - cacheInMemoryBytes,
    machineBytes: totalmem(),
    targetBytes: targetMib && targetMib * MIB,
    inodes: numberOf("inode-limit", inodeLimit, INODE_BOUNDS),
    writePartBytes,
    hasCache,
  });
}

export function cacheOf(
  directory: string | undefined,
  limitMib: string | undefined,
): CacheOptions | undefined {
  const bounds = { min: 1, max: 1 << 30 };
  const limitBytes =
    limitMib === undefined ? undefined : wholeNumber("max-cache-size", limitMib, bounds) * MIB;
  if (directory !== undefined) {
    return { directory: matching("cache", directory, /./, "a directory is expected"), limitBytes };
  }
  if (limitBytes === undefined) return undefined;
  throw new Failure("invalid", "--max-cache-size needs --cache");
}

/** How much of the container's memory a cache may take: nothing if it is on a disk. */
export function inMemoryBytesOf(cache: CacheOptions | undefined): number {
  if (cache?.limitBytes === undefined) return 0;
  try {
    return statfsSync(cache.directory).type === TMPFS_MAGIC ? cache.limitBytes : 0;
  } catch {
    return 0; // opening the cache will say what is wrong with it
  }
}

/** In milliseconds. */
export function outageLimitOf(given = OUTAGE_LIMIT_DEFAULT_S): number {
  return wholeNumber("outage-limit", given, { min: 1, max: 86_400 }) * 1000;
}

/** When a request is given up: later than the outage limit, which says why. In milliseconds. */
export function requestLimitOf(outageLimitMs: number): number {
  return Math.max(2 * REQUEST_MARGIN_MS, outageLimitMs + REQUEST_MARGIN_MS);
}

export function attemptsOf(given: string | undefined): number {
  if (given === undefined || given === "") return ATTEMPTS_DEFAULT;
  if (/^[1-9]\d{0,3}$/.test(given)) return Number(given);
  throw new Failure("invalid", `AWS_MAX_ATTEMPTS ${given}: a number from 1 to 9999 is expected`);
}
