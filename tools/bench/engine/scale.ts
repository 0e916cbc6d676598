import { join } from "node:path";
import { run } from "../../run.ts";
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
  const figures: Record<string, number> = {};
  for (const { name, ...file } of FILES) {
    progress(`scale: ${file.key}`);
    await putLarge(arena.store, file);
    const one = async ({ directory }: Mounted) => {
      const path = join(directory, file.key);
      const s = await seconds(() => readWhole(path));
      return { s, check: () => checkFile(path, file.sizeBytes) };
    };
    const { s, rssMb } = await medians(arena, ours, rounds, one);
    figures[`${name}_s_per_gib`] = (s * GIB) / file.sizeBytes;
    figures[`${name}_rss_mb`] = rssMb;
  }
  for (const { name, ...flat } of DIRECTORIES) {
    progress(`scale: ${flat.directory}`);
    await putSmall(arena.store, namesIn(flat));
    const bare = await seconds(() => listAll(arena.store, `${flat.directory}/`));
    const one = async ({ directory }: Mounted) => {
      let printed = "";
      const list = ["-l", join(directory, flat.directory)];
      const s = await seconds(async () => (printed = await run("ls", list)));
      return { s, check: async () => checkCount(printed, flat.count) };
    };
    const { s, rssMb } = await medians(arena, ours, rounds, one);
    figures[`${name}_us_per_entry`] = (s * 1e6) / flat.count;
    figures[`${name}_bare_us_per_entry`] = (bare * 1e6) / flat.count;
    figures[`${name}_rss_mb`] = rssMb;
  }
  return figures;
}

async function medians(
  arena: Arena,
  ours: Contender,
  rounds: number,
  one: (mounted: Mounted) => Promise<{ s: number; check: () => Promise<void> }>,
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
