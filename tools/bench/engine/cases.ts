import { mkdir, open, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../run.ts";
import { FLAT, LARGE, QUARTERS, TREE } from "./content.ts";

const RANDOM_READS = 500;
const PAGE_BYTES = 4096;
const SMALL_FILES = 500;

/** What is timed, on a fresh mount at `directory`. `attempt` tells new names from old ones. */
type Work = (directory: string, attempt: string) => Promise<unknown>;

export interface Case {
  readonly name: string;
  readonly work: Work;
  /** s3fs keeps whole files on a local disk: random reads of it measure that disk. */
  readonly oursOnly?: boolean;
}

const read = (path: string) => run("dd", [`if=${path}`, "of=/dev/null", "bs=1M", "status=none"]);

export const CASES: readonly Case[] = [
  { name: "read1", work: (directory) => read(join(directory, LARGE.key)) },
  {
    name: "read4",
    work: (directory) => Promise.all(QUARTERS.map(({ key }) => read(join(directory, key)))),
  },
  { name: "write", work: writeLarge },
  { name: "rand1", work: (directory) => readAtRandom(directory, 1), oursOnly: true },
  { name: "rand4", work: (directory) => readAtRandom(directory, 4), oursOnly: true },
  {
    name: "ls",
    work: (directory) => lines("ls", ["-l", join(directory, FLAT.directory)], FLAT.count),
  },
  {
    name: "find",
    work: (directory) =>
      lines("find", [join(directory, TREE.directory)], TREE.directories * TREE.files),
  },
  { name: "small", work: writeAndReadSmall },
];

async function writeLarge(directory: string, attempt: string): Promise<void> {
  const path = join(directory, `written-${attempt}`);
  await run("dd", ["if=/dev/zero", `of=${path}`, "bs=1M", "count=1024", "status=none"]);
}

async function lines(program: string, args: readonly string[], atLeast: number): Promise<void> {
  const found = (await run(program, args)).trimEnd().split("\n").length;
  if (found < atLeast) throw new Error(`${program}: ${found} lines instead of ${atLeast}`);
}

async function readAtRandom(directory: string, jobs: number): Promise<void> {
  const reader = async () => {
    await using file = await open(join(directory, LARGE.key));
    const bytes = Buffer.alloc(PAGE_BYTES);
    for (let n = 0; n < RANDOM_READS; n++) {
      const page = Math.floor((Math.random() * LARGE.sizeBytes) / PAGE_BYTES);
      await file.read(bytes, 0, PAGE_BYTES, page * PAGE_BYTES);
    }
  };
  await Promise.all(Array.from({ length: jobs }, reader));
}

async function writeAndReadSmall(directory: string, attempt: string): Promise<void> {
  const content = Buffer.alloc(PAGE_BYTES, 7);
  const own = join(directory, `small-${attempt}`);
  await mkdir(own);
  for (let n = 0; n < SMALL_FILES; n++) await writeFile(join(own, `f${n}`), content);
  for (let n = 0; n < SMALL_FILES; n++) {
    if (!content.equals(await readFile(join(own, `f${n}`)))) throw new Error(`f${n} is wrong`);
  }
}

/** From the start of the program to the first answer about a file. */
export async function firstStat(directory: string): Promise<void> {
  await stat(join(directory, LARGE.key));
}
