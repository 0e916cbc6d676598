import { randomBytes } from "node:crypto";
import { checksumOf, CHECKSUM_KINDS } from "../../../src/s3/upload-checksum.ts";
import { md5InThread, sha256 } from "../../../src/sys/openssl.ts";
import { median } from "../median.ts";
import type { Figures } from "../part.ts";

const PART_BYTES = 8 << 20;
const PARTS = 64;
const GIB = 1 << 30;

const SUMS = {
  crc32: (part: Buffer) => checksumOf(CHECKSUM_KINDS.crc32, part),
  md5: md5InThread,
  sha256: async (part: Buffer) => sha256(part),
} as const;

/** CPU seconds per GiB of the sums alone, over parts of an upload; in turns, the medians. */
export async function sumFigures(rounds: number): Promise<Figures> {
  const parts = Array.from({ length: PARTS }, () => randomBytes(PART_BYTES));
  const costs = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    for (const [name, sum] of Object.entries(SUMS)) {
      const before = process.cpuUsage();
      for (const part of parts) await sum(part);
      const { user, system } = process.cpuUsage(before);
      const perGib = (((user + system) / 1e6) * GIB) / (PART_BYTES * PARTS);
      costs.set(name, [...(costs.get(name) ?? []), perGib]);
    }
  }
  const figures = [...costs].map(([name, all]) => [`sum_${name}_cpu_s_per_gib`, median(all)]);
  return Object.fromEntries(figures) as Figures;
}
