import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path/posix";
import type { S3Store } from "../../../src/s3/s3-store.ts";
import { run } from "../../run.ts";
import {
  checkFile,
  checkObject,
  FLAT,
  inParallel,
  LARGE,
  limit,
  namesIn,
  namesInTree,
  PAGE_BYTES,
  pageOf,
  QUARTERS,
  SMALL_BYTES,
  TREE,
} from "./content.ts";

export const RANDOM_READS = 500;
const SMALL_FILES = 500;
/** Of short cases whose medians of five single ones moved by a tenth from run to run. */
const SHORT_GOES = 3;

/** One go at a case, on a fresh mount. */
export interface Attempt {
  readonly directory: string;
  /** Unique in a run: for names of files that are written. */
  readonly id: string;
  /** The bucket itself, to see whether it holds what was written. */
  readonly store: S3Store;
  /** A local file with the bytes of the large object. */
  readonly source: string;
}

export interface Case {
  readonly name: string;
  /** What is timed. What it prints is for the check. */
  readonly work: (attempt: Attempt) => Promise<string | void>;
  /** Not timed: were the bytes and names right? Removes what was written. */
  readonly check?: (attempt: Attempt, printed: string) => Promise<void>;
  /** Of the two servers of an arena: the S3 server itself, or the files that it keeps. */
  readonly of?: "files";
  /** In each round, in turns: where single ones would say more of the moment than of us. */
  readonly goes?: number;
  /** What the work amounts to, for a rate. */
  readonly amount: { readonly bytes: number } | { readonly operations: number };
}

export const CASES: readonly Case[] = [
  {
    name: "read1",
    amount: { bytes: LARGE.sizeBytes },
    work: ({ directory }) => readWhole(join(directory, LARGE.key)),
    check: ({ directory }) => checkFile(join(directory, LARGE.key), LARGE.sizeBytes),
  },
  {
    name: "read4",
    goes: SHORT_GOES,
    amount: { bytes: LARGE.sizeBytes },
    work: async ({ directory }) => {
      await Promise.all(QUARTERS.map(({ key }) => readWhole(join(directory, key))));
    },
    check: async ({ directory }) => {
      for (const { key, sizeBytes } of QUARTERS) await checkFile(join(directory, key), sizeBytes);
    },
  },
  {
    name: "write",
    amount: { bytes: LARGE.sizeBytes },
    work: async ({ directory, id, source }) => {
      const target = join(directory, `written-${id}`);
      await run("dd", [`if=${source}`, `of=${target}`, "bs=1M", "status=none"]);
    },
    check: async ({ store, id }) => {
      const key = `written-${id}`;
      await checkObject(store, { key, sizeBytes: LARGE.sizeBytes });
      await store.delete(key, limit());
    },
  },
  randomReads("rand1", 1),
  randomReads("rand4", 4),
  {
    name: "ls",
    amount: { operations: FLAT.count },
    work: ({ directory }) => run("ls", ["-l", join(directory, FLAT.directory)]),
    check: async (_, printed) => checkLongList(printed),
  },
  {
    name: "find",
    goes: SHORT_GOES,
    amount: { operations: TREE.directories * TREE.files },
    work: ({ directory }) => run("find", [join(directory, TREE.directory)]),
    check: async ({ directory }, printed) => {
      const found = printed.trimEnd().split("\n");
      const names = found.map((path) => path.slice(directory.length + 1));
      const files = namesInTree();
      checkNames("find", names, [TREE.directory, ...new Set(files.map(dirname)), ...files]);
    },
  },
  {
    name: "small",
    amount: { operations: 2 * SMALL_FILES },
    work: ({ directory, id }) => writeAndReadSmall(join(directory, smallOf(id))),
    check: checkSmall,
  },
];

export async function readWhole(path: string): Promise<void> {
  await run("dd", [`if=${path}`, "of=/dev/null", "bs=1M", "status=none"]);
}

/** The same pages for every contender, and others in each job. Each page is compared. */
function randomReads(name: string, jobs: number): Case {
  const reader = async (directory: string, job: number) => {
    await using file = await open(join(directory, LARGE.key));
    const bytes = Buffer.alloc(PAGE_BYTES);
    for (const page of randomPages(job, RANDOM_READS)) {
      await file.read(bytes, 0, PAGE_BYTES, page * PAGE_BYTES);
      if (!bytes.equals(pageOf(page))) throw new Error(`page ${page} is wrong`);
    }
  };
  return {
    name,
    of: "files",
    amount: { operations: jobs * RANDOM_READS },
    work: async ({ directory }) => {
      await Promise.all(Array.from({ length: jobs }, (_, job) => reader(directory, job)));
    },
  };
}

/** By a fixed sequence (Marsaglia's xorshift32): every run reads the same pages. */
export function* randomPages(seed: number, count: number): Generator<number> {
  let state = (seed + 1) * 2654435769;
  for (let n = 0; n < count; n++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    yield (state >>> 0) % (LARGE.sizeBytes / PAGE_BYTES);
  }
}

function checkLongList(printed: string): void {
  const [, ...lines] = printed.trimEnd().split("\n"); // the first one is the total
  const names = lines.map((line) => {
    const fields = line.split(/\s+/);
    if (fields[4] !== String(SMALL_BYTES)) throw new Error(`ls: wrong size in "${line}"`);
    return `${FLAT.directory}/${fields.at(-1)}`;
  });
  checkNames("ls", names, namesIn(FLAT));
}

function checkNames(program: string, found: readonly string[], wanted: readonly string[]): void {
  if (found.toSorted().join("\n") === wanted.toSorted().join("\n")) return;
  throw new Error(`${program}: ${found.length} names, not the ${wanted.length} of the bucket`);
}

function smallOf(id: string): string {
  return `small-${id}`;
}

async function writeAndReadSmall(own: string): Promise<void> {
  await mkdir(own);
  for (let n = 0; n < SMALL_FILES; n++) await writeFile(join(own, `f${n}`), pageOf(n));
  for (let n = 0; n < SMALL_FILES; n++) {
    if (!pageOf(n).equals(await readFile(join(own, `f${n}`)))) throw new Error(`f${n} is wrong`);
  }
}

async function checkSmall({ store, id }: Attempt): Promise<void> {
  await inParallel(Array(SMALL_FILES).keys(), async (n) => {
    const key = `${smallOf(id)}/f${n}`;
    const into = Buffer.alloc(PAGE_BYTES);
    const { etag = "" } = (await store.head(key, limit())) ?? {};
    const range = { key, etag, objectBytes: PAGE_BYTES, offsetBytes: 0, into };
    await store.read({ ...range, onFilled: () => undefined }, limit());
    if (!into.equals(pageOf(n))) throw new Error(`${key}: wrong bytes in the bucket`);
    await store.delete(key, limit());
  });
  await store.delete(`${smallOf(id)}/`, limit()); // some make an object of a directory
}
