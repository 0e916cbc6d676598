import { Buffer } from "node:buffer";
import type { S3Store } from "../../../src/s3/s3-store.ts";
import { randomPages, RANDOM_READS } from "./cases.ts";
import type { Case } from "./cases.ts";
import {
  FLAT,
  inParallel,
  LARGE,
  limit,
  PAGE_BYTES,
  PART_BYTES,
  partNumbers,
  putLarge,
  TREE,
} from "./content.ts";

const ignore = () => undefined;

interface Ceiling extends Pick<Case, "of"> {
  readonly work: (store: S3Store) => Promise<unknown>;
}

/** Figure → the same work by plain HTTP, without a filesystem. */
export const CEILINGS: Readonly<Record<string, Ceiling>> = {
  read1_http_s: { work: readInParallel },
  write_http_s: { work: writeInParallel },
  rand1_http_s: { work: readPages, of: "files" },
  ls_bare_s: { work: (store) => listAll(store, `${FLAT.directory}/`) },
  find_bare_s: { work: listTree },
};

async function readInParallel(store: S3Store): Promise<void> {
  const { key, sizeBytes } = LARGE;
  const { etag = "" } = (await store.head(key, limit())) ?? {};
  const buffers: Buffer[] = [];
  await inParallel(partNumbers(sizeBytes), async (n) => {
    const into = buffers.pop() ?? Buffer.allocUnsafeSlow(PART_BYTES);
    const pinned = { key, etag, objectBytes: sizeBytes };
    await store.read({ ...pinned, offsetBytes: n * PART_BYTES, into, onFilled: ignore }, limit());
    buffers.push(into);
  });
}

async function writeInParallel(store: S3Store): Promise<void> {
  await putLarge(store, { key: "written-http", sizeBytes: LARGE.sizeBytes });
  await store.delete("written-http", limit());
}

async function readPages(store: S3Store): Promise<void> {
  const into = Buffer.alloc(PAGE_BYTES);
  const { key, sizeBytes: objectBytes } = LARGE;
  const { etag = "" } = (await store.head(key, limit())) ?? {};
  for (const page of randomPages(0, RANDOM_READS)) {
    const range = { key, etag, objectBytes, offsetBytes: page * PAGE_BYTES, into };
    await store.read({ ...range, onFilled: ignore }, limit());
  }
}

/** As `find` needs them: the directories, then one after the other what is in each. */
async function listTree(store: S3Store): Promise<void> {
  for (const prefix of await listAll(store, `${TREE.directory}/`)) await listAll(store, prefix);
}

/** Page by page; gives the common prefixes. */
export async function listAll(store: S3Store, prefix: string): Promise<string[]> {
  const prefixes: string[] = [];
  let continuationToken: string | undefined;
  do {
    const query = { prefix, delimiter: "/", keysMax: 1000, continuationToken } as const;
    const page = await store.list(query, limit());
    prefixes.push(...page.prefixes);
    continuationToken = page.nextToken;
  } while (continuationToken !== undefined);
  return prefixes;
}
