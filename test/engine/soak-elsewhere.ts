import { setTimeout as delay } from "node:timers/promises";
import type { SoakLedger } from "./soak-ledger.ts";
import type { SoakProxy } from "./soak-proxy.ts";
import { Random } from "./soak-random.ts";
import { sharedMs } from "./soak-report.ts";
import { contentOf } from "./soak-version.ts";
import type { TestBucket } from "./test-bucket.ts";

const WRITER = "elsewhere";
const FILES = 16;
const PAUSE_MAX_MS = 400;
const LARGE_BYTES = 11_000_000;
const SMALL_BYTES = 100_000;

export interface Elsewhere {
  readonly bucket: TestBucket;
  readonly proxy: SoakProxy;
  readonly ledger: SoakLedger;
  readonly seed: number;
}

/** Another client of the bucket, which replaces and deletes what programs of the mount share. */
export async function workElsewhere(
  { bucket, proxy, ledger, seed }: Elsewhere,
  ends: AbortSignal,
): Promise<void> {
  const random = new Random(seed);
  for (let number = 1; !ends.aborted; number++) {
    const n = random.between(0, FILES);
    const file = n % 4 === 0 ? `shared-directory-${n % 8}/file-${n}` : `file-${n}`;
    const sizeBytes = random.between(1, random.chance(0.2) ? LARGE_BYTES : SMALL_BYTES);
    const isDelete = random.chance(0.25);
    const version = isDelete ? undefined : { file, writer: WRITER, number, sizeBytes };
    const begin = sharedMs();
    const change = () =>
      version === undefined ? bucket.delete(file) : bucket.put(file, contentOf(version));
    await proxy.elsewhere(file, change);
    const lengths = version === undefined ? ([0, 0] as const) : ([sizeBytes, sizeBytes] as const);
    ledger.history(file).add({ version, lengths, begin, end: sharedMs(), certain: true });
    await delay(random.between(0, PAUSE_MAX_MS));
  }
}
