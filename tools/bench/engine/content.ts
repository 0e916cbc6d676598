import { Buffer } from "node:buffer";
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { S3Store } from "../../../src/s3/s3-store.ts";

const MIB = 1 << 20;
export const PART_BYTES = 8 * MIB;
export const PAGE_BYTES = 4096;
const PAGES_PER_PART = PART_BYTES / PAGE_BYTES;
const AT_ONCE = 16;
/** The S3 server keeps a list of them in an extended attribute: 1,024 are too many for it. */
const UPLOADED_PARTS_MAX = 128;

export interface LargeObject {
  readonly key: string;
  /** A multiple of the part's size. */
  readonly sizeBytes: number;
}

export const LARGE: LargeObject = { key: "large", sizeBytes: 1024 * MIB };
export const QUARTERS: readonly LargeObject[] = [0, 1, 2, 3].map((n) => ({
  key: `quarter-${n}`,
  sizeBytes: 256 * MIB,
}));
export const FLAT = { directory: "flat", count: 10_000 };
export const TREE = { directory: "tree", directories: 100, files: 100 };
export const SMALL_BYTES = 100;

const PATTERN = Buffer.alloc(PART_BYTES);
for (let at = 0; at < PART_BYTES; at += 4) PATTERN.writeUInt32LE((at * 2654435761) >>> 0, at);

/** Page `n` of every large object. No two are alike: each begins with its number. */
export function pageOf(n: number): Buffer {
  const at = (n % PAGES_PER_PART) * PAGE_BYTES;
  const page = Buffer.from(PATTERN.subarray(at, at + PAGE_BYTES));
  page.writeUInt32LE(n, 0);
  return page;
}

/** Part `n`, counted from 0. */
export function partOf(n: number): Buffer {
  const part = Buffer.from(PATTERN);
  for (let page = 0; page < PAGES_PER_PART; page++) {
    part.writeUInt32LE(n * PAGES_PER_PART + page, page * PAGE_BYTES);
  }
  return part;
}

export function namesIn({ directory, count }: typeof FLAT): string[] {
  return Array.from({ length: count }, (_, n) => `${directory}/${pad(n)}`);
}

export function namesInTree(): string[] {
  return Array.from({ length: TREE.directories }, (_, n) =>
    namesIn({ directory: `${TREE.directory}/${pad(n)}`, count: TREE.files }),
  ).flat();
}

/** Puts into the bucket what the cases read. */
export async function fill(store: S3Store, progress: (text: string) => void): Promise<void> {
  for (const object of [LARGE, ...QUARTERS]) {
    progress(`content: ${object.key}`);
    await putLarge(store, object);
  }
  const names = [...namesIn(FLAT), ...namesInTree()];
  progress(`content: ${names.length} small objects`);
  await putSmall(store, names);
}

export async function putSmall(store: S3Store, names: readonly string[]): Promise<void> {
  const bytes = PATTERN.subarray(0, SMALL_BYTES);
  await inParallel(names, (name) => store.put(name, bytes, "bench", limit()));
}

export async function putLarge(store: S3Store, { key, sizeBytes }: LargeObject): Promise<void> {
  const uploadId = await store.createUpload(key, "bench", limit());
  const together = Math.ceil(sizeBytes / PART_BYTES / UPLOADED_PARTS_MAX);
  const uploaded = Array(sizeBytes / PART_BYTES / together).keys();
  const parts = await inParallel(
    uploaded,
    (n) => {
      const bytes = Array.from({ length: together }, (_, nth) => partOf(n * together + nth));
      return store.uploadPart(key, uploadId, n + 1, Buffer.concat(bytes), limit());
    },
    Math.ceil(AT_ONCE / together),
  );
  const ordered = parts.toSorted((left, right) => left.partNumber - right.partNumber);
  await store.completeUpload(key, uploadId, ordered, "bench", limit());
}

/** A local file with the bytes of a large object. */
export async function writeLocal(path: string, { sizeBytes }: LargeObject): Promise<void> {
  await using file = await open(path, "w");
  for (const n of partNumbers(sizeBytes)) await file.write(partOf(n));
}

/** Fails unless the file has the bytes of a large object of this size. */
export async function checkFile(path: string, sizeBytes: number): Promise<void> {
  await using file = await open(path);
  const bytes = Buffer.allocUnsafeSlow(PART_BYTES);
  for (const n of partNumbers(sizeBytes)) {
    await readFully(file, bytes, n * PART_BYTES);
    if (!bytes.equals(partOf(n))) throw new Error(`${path}: wrong bytes in part ${n}`);
  }
  const { bytesRead } = await file.read(bytes, 0, 1, sizeBytes);
  if (bytesRead !== 0) throw new Error(`${path}: longer than ${sizeBytes} bytes`);
}

/** The same for an object, asked of the S3 server itself. */
export async function checkObject(store: S3Store, { key, sizeBytes }: LargeObject): Promise<void> {
  const { etag = "", sizeBytes: found } = (await store.head(key, limit())) ?? {};
  if (found !== sizeBytes) throw new Error(`${key}: ${found} bytes instead of ${sizeBytes}`);
  const into = Buffer.allocUnsafeSlow(PART_BYTES);
  for (const n of partNumbers(sizeBytes)) {
    const range = { key, etag, objectBytes: sizeBytes, offsetBytes: n * PART_BYTES, into };
    await store.read({ ...range, onFilled: () => undefined }, limit());
    if (!into.equals(partOf(n))) throw new Error(`${key}: wrong bytes in part ${n}`);
  }
}

export async function inParallel<T, R>(
  items: Iterable<T>,
  work: (item: T) => Promise<R>,
  atOnce = AT_ONCE,
): Promise<R[]> {
  const results: R[] = [];
  const queue = Iterator.from(items);
  const worker = async () => {
    for (const item of queue) results.push(await work(item));
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

export function limit(): AbortSignal {
  return AbortSignal.timeout(120_000);
}

export function partNumbers(sizeBytes: number): number[] {
  return Array.from({ length: sizeBytes / PART_BYTES }, (_, n) => n);
}

async function readFully(file: FileHandle, into: Buffer, position: number): Promise<void> {
  for (let at = 0; at < into.length;) {
    const { bytesRead } = await file.read(into, at, into.length - at, position + at);
    if (bytesRead === 0) throw new Error(`the file ends at ${position + at}`);
    at += bytesRead;
  }
}

function pad(n: number): string {
  return String(n).padStart(5, "0");
}
