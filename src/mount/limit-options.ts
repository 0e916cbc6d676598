import { totalmem } from "node:os";
import { Failure } from "../base/failure.ts";
import { matching, wholeNumber } from "./option-values.ts";

const MIB = 1 << 20;
const ATTEMPTS_DEFAULT = 10;
const OUTAGE_LIMIT_DEFAULT_S = "60";
const INODES_DEFAULT = 200_000;
/** Node, the request slots, and a part or two on their way. */
const MEMORY_MIN_MIB = 96;

export interface CacheOptions {
  readonly directory: string;
  /** Undefined: all of the file system but a share that stays free. */
  readonly limitBytes: number | undefined;
}

/**
 * A quarter of what the container or the machine has; the rest is for everybody else. `constrained`
 * is the container's limit, 0 or very large where there is none.
 */
export function memoryTargetOf(
  given: string | undefined,
  constrained = process.constrainedMemory(),
): number {
  if (constrained > 0 && constrained < MEMORY_MIN_MIB * MIB) {
    const limit = `a memory limit of ${Math.floor(constrained / MIB)} MiB is too small`;
    throw new Failure("invalid", `${limit}: at least ${MEMORY_MIN_MIB} MiB are needed`);
  }
  if (given !== undefined) {
    return wholeNumber("memory-target", given, { min: 64, max: 1 << 20 }) * MIB;
  }
  const available = constrained > 0 && constrained < totalmem() ? constrained : totalmem();
  return Math.min(Math.max(available / 4, 64 * MIB), 512 * MIB);
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

export function inodeLimitOf(given: string | undefined): number {
  if (given === undefined) return INODES_DEFAULT;
  return wholeNumber("inode-limit", given, { min: 100, max: 100_000_000 });
}

/** In milliseconds. */
export function outageLimitOf(given = OUTAGE_LIMIT_DEFAULT_S): number {
  return wholeNumber("outage-limit", given, { min: 1, max: 86_400 }) * 1000;
}

export function attemptsOf(given: string | undefined): number {
  if (given === undefined || given === "") return ATTEMPTS_DEFAULT;
  if (/^[1-9]\d{0,3}$/.test(given)) return Number(given);
  throw new Failure("invalid", `AWS_MAX_ATTEMPTS ${given}: a number from 1 to 9999 is expected`);
}
