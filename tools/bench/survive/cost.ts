import { mkdir, readdir, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../run.ts";
import type { Arena } from "../engine/arena.ts";
import { readWhole } from "../engine/cases.ts";
import { ourEngine } from "../engine/contenders.ts";
import type { Contender } from "../engine/contenders.ts";
import { LARGE, limit, putLarge, putSmall, writeLocal } from "../engine/content.ts";
import { Mounted } from "../engine/mounted.ts";
import { median } from "../median.ts";
import type { Figures } from "../part.ts";

const SMALL_FILES = 600;
const LISTED = 2_000;

interface Work {
  /** How many GiB, or how many operations. */
  readonly amount: number;
  readonly run: (directory: string, source: string) => Promise<unknown>;
}

const WORKS: Readonly<Record<string, Work>> = {
  read: { amount: 1, run: (directory) => readWhole(join(directory, LARGE.key)) },
  write: {
    amount: 1,
    run: (directory, source) =>
      run("dd", [`if=${source}`, `of=${join(directory, "new")}`, "bs=1M", "status=none"]),
  },
  metadata: { amount: 3 * SMALL_FILES + LISTED, run: metadata },
};

/** CPU seconds with a journal and without, in turns; each ratio is the median of its pairs. */
export async function costFigures(
  arena: Arena,
  pairs: number,
  progress: (text: string) => void,
): Promise<Figures> {
  const source = join(arena.dir, "source");
  await writeLocal(source, LARGE);
  await putLarge(arena.store, LARGE);
  await putSmall(
    arena.store,
    Array.from({ length: LISTED }, (_, n) => `listed/${n}`),
  );
  const on = await ourEngine(arena.access, ["--allow-delete"]);
  const off = await ourEngine(arena.access, ["--allow-delete", "--no-journal"]);
  const figures: Record<string, number> = {};
  for (const [name, work] of Object.entries(WORKS)) {
    const costs: { on: number; off: number }[] = [];
    for (let pair = 0; pair < pairs; pair++) {
      progress(`cost of ${name}: pair ${pair + 1} of ${pairs}`);
      const first = await costOf(arena, pair % 2 === 0 ? on : off, work, source);
      const second = await costOf(arena, pair % 2 === 0 ? off : on, work, source);
      costs.push(pair % 2 === 0 ? { on: first, off: second } : { on: second, off: first });
    }
    const per = name === "metadata" ? "operation_us" : "s_per_gib";
    const scale = name === "metadata" ? 1e6 / work.amount : 1 / work.amount;
    figures[`cost_${name}_cpu_ratio`] = median(costs.map((one) => one.on / one.off));
    figures[`cost_${name}_cpu_${per}`] = median(costs.map((one) => one.on)) * scale;
    figures[`cost_${name}_cpu_${per}_without`] = median(costs.map((one) => one.off)) * scale;
  }
  return figures;
}

async function costOf(
  arena: Arena,
  engine: Contender,
  work: Work,
  source: string,
): Promise<number> {
  await using mounted = await Mounted.start(arena, engine);
  const before = await mounted.use();
  await work.run(mounted.directory, source);
  const after = await mounted.use();
  for (const key of ["new", "own/keep"]) await arena.store.delete(key, limit());
  return after.cpuSeconds - before.cpuSeconds;
}

async function metadata(directory: string): Promise<void> {
  const own = join(directory, "own");
  await mkdir(own);
  await writeFile(join(own, "keep"), "x"); // S3 has no empty directory
  for (let n = 0; n < SMALL_FILES; n++) {
    const path = join(own, String(n));
    await writeFile(path, "x");
    await stat(path);
    await unlink(path);
  }
  const names = await readdir(join(directory, "listed"));
  if (names.length !== LISTED) throw new Error(`${names.length} names of ${LISTED}`);
}
