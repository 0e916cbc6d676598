import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { S3Store } from "../../../src/s3/s3-store.ts";

const MIB = 1 << 20;
const PART_BYTES = 8 * MIB;
const AT_ONCE = 16;

export const LARGE = { key: "large", sizeBytes: 1024 * MIB };
export const QUARTERS = [0, 1, 2, 3].map((n) => ({ key: `quarter-${n}`, sizeBytes: 256 * MIB }));
export const FLAT = { directory: "flat", count: 10_000 };
export const TREE = { directory: "tree", directories: 100, files: 100 };

/** No two pages alike, and the same in every run. */
const PART = Buffer.alloc(PART_BYTES);
for (let at = 0; at < PART_BYTES; at += 4) PART.writeUInt32LE((at * 2654435761) >>> 0, at);

export function sha256Of(sizeBytes: number): string {
  const hash = createHash("sha256");
  for (let at = 0; at < sizeBytes; at += PART_BYTES) hash.update(PART);
  return hash.digest("hex");
}

/** Puts into the bucket what the cases read. */
export async function fill(store: S3Store, progress: (text: string) => void): Promise<void> {
  for (const { key, sizeBytes } of [LARGE, ...QUARTERS]) {
    progress(`content: ${key}`);
    await putLarge(store, key, sizeBytes);
  }
  const names = Array.from({ length: FLAT.count }, (_, n) => `${FLAT.directory}/${pad(n)}`);
  for (let directory = 0; directory < TREE.directories; directory++) {
    for (let file = 0; file < TREE.files; file++) {
      names.push(`${TREE.directory}/${pad(directory)}/${pad(file)}`);
    }
  }
  progress(`content: ${names.length} small objects`);
  await inParallel(names, (name) => store.put(name, PART.subarray(0, 100), "bench", limit()));
}

async function putLarge(store: S3Store, key: string, sizeBytes: number): Promise<void> {
  const uploadId = await store.createUpload(key, "bench", limit());
  const numbers = Array.from({ length: sizeBytes / PART_BYTES }, (_, n) => n + 1);
  const parts = await inParallel(numbers, (n) => store.uploadPart(key, uploadId, n, PART, limit()));
  const ordered = parts.toSorted((left, right) => left.partNumber - right.partNumber);
  await store.completeUpload(key, uploadId, ordered, "bench", limit());
}

export async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>) {
  const results: R[] = [];
  const queue = items.values();
  const worker = async () => {
    for (const item of queue) results.push(await work(item));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}

export function limit(): AbortSignal {
  return AbortSignal.timeout(120_000);
}

function pad(n: number): string {
  return String(n).padStart(5, "0");
}
