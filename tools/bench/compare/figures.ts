import { join } from "node:path";
import { run } from "../../run.ts";
import { openArena } from "../engine/arena.ts";
import type { Arena } from "../engine/arena.ts";
import { CASES } from "../engine/cases.ts";
import type { Case } from "../engine/cases.ts";
import { bundledEngine, ourEngine } from "../engine/contenders.ts";
import type { Contender } from "../engine/contenders.ts";
import { fill, LARGE, writeLocal } from "../engine/content.ts";
import { openFileFront } from "../engine/file-front.ts";
import { measure } from "../engine/measure.ts";
import { median } from "../median.ts";
import type { Figures } from "../part.ts";
import { buildEarlier } from "./earlier-build.ts";

export const COMPARED = ["s", "cpu_s", "rss_mb"] as const;
const BEFORE = "before";

/** Measures every case of the engine by this tree and by the commit, one after the other. */
export async function compareFigures(
  commit: string,
  rounds: number,
  progress: (text: string) => void,
): Promise<Figures> {
  await using arena = await openArena();
  progress(`building ${commit}`);
  const entry = await buildEarlier(commit, arena.dir);
  await fill(arena.store, progress);
  await using front = await openFileFront(arena);
  const source = join(arena.dir, "source");
  await writeLocal(source, LARGE);
  const stages = { s3: await stageOf(arena, entry), files: await stageOf(front, entry) };
  const lists = new Map<string, number[]>();
  for (let round = 1; round <= rounds; round++) {
    for (const one of CASES) {
      progress(`round ${round} of ${rounds}: ${one.name}`);
      const stage = stages[one.of ?? "s3"];
      await goes(stage, one, { round, source }, (name, value) => {
        lists.set(name, [...(lists.get(name) ?? []), value]);
      });
    }
  }
  const medians = Array.from(lists, ([name, values]) => [name, median(values)] as const);
  return { commit, rounds, ...Object.fromEntries(medians) };
}

interface Stage {
  readonly arena: Arena;
  readonly both: readonly Contender[];
}

async function stageOf(arena: Arena, entry: string): Promise<Stage> {
  const before = bundledEngine(arena.access, { name: BEFORE, entry });
  return { arena, both: [before, await ourEngine(arena.access)] };
}

/** Each go of a case by both; the order alternates, so that neither always comes second. */
async function goes(
  { arena, both }: Stage,
  one: Case,
  { round, source }: { readonly round: number; readonly source: string },
  add: (name: string, value: number) => void,
): Promise<void> {
  for (let turn = 1; turn <= (one.goes ?? 1); turn++) {
    const order = (round + turn) % 2 === 0 ? both : both.toReversed();
    for (const contender of order) {
      await run("sync", []);
      const go = { id: `${contender.name}-${round}-${turn}`, source };
      const sample = await measure(arena, contender, one, go);
      const infix = contender.name === BEFORE ? `${BEFORE}_` : "";
      for (const what of COMPARED) add(`${one.name}_${infix}${what}`, sample[what] ?? 0);
    }
  }
}
