import { totalmem } from "node:os";
import { Failure } from "../base/failure.ts";
import { wholeNumber } from "./option-values.ts";

const MIB = 1 << 20;
const ATTEMPTS_DEFAULT = 10;
const OUTAGE_LIMIT_DEFAULT_S = "60";
const INODES_DEFAULT = 200_000;

/** A quarter of what the container or the machine has; the rest is for everybody else. */
export function memoryTargetOf(given: string | undefined): number {
  if (given !== undefined) {
    return wholeNumber("memory-target", given, { min: 64, max: 1 << 20 }) * MIB;
  }
  const constrained = process.constrainedMemory();
  const available = constrained > 0 && constrained < totalmem() ? constrained : totalmem();
  return Math.min(Math.max(available / 4, 64 * MIB), 512 * MIB);
}

/** In bytes. Undefined: as much as the disk has, without a reserve for others. */
export function cacheLimitOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  return wholeNumber("max-cache-size", given, { min: 1, max: 1 << 30 }) * MIB;
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
