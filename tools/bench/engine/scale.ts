import { join } from "node:path";
import { run as runProgram } from "../../run.ts";
import { median } from "../median.ts";
import type { Figures } from "../part.ts";
import type { Arena } from "./arena.ts";
import { readWhole } from "./cases.ts";
import { listAll } from "./ceilings.ts";
import type { Contender } from "./contenders.ts";
import { checkFile, namesIn, putLarge, putSmall } from "./content.ts";
import { seconds } from "./measure.ts";
import { Mounted } from "./mounted.ts";

const MIB = 1 << 20;
const GIB = 1 << 30;
const FILES = [
  { name: "read_64mib", key: "scale-64mib", sizeBytes: 64 * MIB },
  { name: "read_8gib", key: "scale-8gib", sizeBytes: 8192 * MIB },
];
const DIRECTORIES = [
  { name: "ls_1000", directory: "scale-1000", count: 1_000 },
  { name: "ls_100000", directory: "scale-100000", count: 100_000 },
];

/** Does the cost grow as the work does, and no faster? Ours alone, medians. */
export async function scaleFigures(
  arena: Arena,
  ours: Contender,
  rounds: number,
  progress: (text: string) => void,
): Promise<Figures> {
  const run = (one: Work) => medians(arena, ours, rounds, one);
  const all = [
    ...FILES.map((file) => ({ ...file, figures: () => readFigures(arena, file, run) })),
    ...DIRECTORIES.map((flat) => ({ ...flat, figures: () => listFigures(arena, flat, run) })),
  ];
  const found: Record<string, number | string> = {};
  for (const { name, figures } of all) {
    progress(`scale: ${name}`);
    await figures().then(
      (part) => Object.assign(found, part),
      (error: unknown) => (found[`${name}_failed`] = String(error)),
    );
  }
  return found;
}

/** Gives the time of the work, and a check that comes after it. */
type Work = (mounted: Mounted) => Promise<{ s: number; check: () => Promise<void> }>;
type Run = (one: Work) => Promise<{ s: number; rssMb: number }>;

async function readFigures(arena: Arena, file: (typeof FILES)[number], run: Run) {
  const { name, key, sizeBytes } = file;
  await putLarge(arena.store, file);
  const { s, rssMb } = await run(async ({ directory }) => {
    const path = join(directory, key);
    const time = await seconds(() => readWhole(path));
    return { s: time, check: () => checkFile(path, sizeBytes) };
  });
  return { [`${name}_s_per_gib`]: (s * GIB) / sizeBytes, [`${name}_rss_mb`]: rssMb };
}

async function listFigures(arena: Arena, flat: (typeof DIRECTORIES)[number], run: Run) {
  const { name, directory, count } = flat;
  await putSmall(arena.store, namesIn(flat));
  const bare = await seconds(() => listAll(arena.store, `${directory}/`));
  const { s, rssMb } = await run(async (mounted) => {
    let printed = "";
    const list = ["-l", join(mounted.directory, directory)];
    const time = await seconds(async () => (printed = await runProgram("ls", list)));
    return { s: time, check: async () => checkCount(printed, count) };
  });
  return {
    [`${name}_us_per_entry`]: (s * 1e6) / count,
    [`${name}_bare_us_per_entry`]: (bare * 1e6) / count,
    [`${name}_rss_mb`]: rssMb,
  };
}

async function medians(
  arena: Arena,
  ours: Contender,
  rounds: number,
  one: Work,
): Promise<{ s: number; rssMb: number }> {
  const times: number[] = [];
  const peaks: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    await using mounted = await Mounted.start(arena, ours);
    const { s, check } = await one(mounted);
    times.push(s);
    peaks.push(Math.max(...(await mounted.use()).peakRssMb));
    await check();
  }
  return { s: median(times), rssMb: median(peaks) };
}

function checkCount(printed: string, wanted: number): void {
  const found = printed.trimEnd().split("\n").length - 1; // the first line is the total
  if (found !== wanted) throw new Error(`ls: ${found} entries instead of ${wanted}`);
}
