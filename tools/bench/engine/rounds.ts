import { join } from "node:path";
import { median } from "../median.ts";
import { run } from "../../run.ts";
import type { Figures } from "../part.ts";
import { openArena, serverVersion } from "./arena.ts";
import type { Arena } from "./arena.ts";
import { CASES } from "./cases.ts";
import { CEILINGS } from "./ceilings.ts";
import { contenders } from "./contenders.ts";
import type { Contender } from "./contenders.ts";
import { fill, LARGE, writeLocal } from "./content.ts";
import { fetchedPerRead } from "./fetched.ts";
import { openFileFront } from "./file-front.ts";
import { OURS } from "./figure-names.ts";
import { measure, measureMount, seconds } from "./measure.ts";
import { Samples } from "./samples.ts";
import type { Sample } from "./samples.ts";
import { scaleFigures } from "./scale.ts";

const SCALE_ROUNDS_MAX = 3;

export interface Settings {
  readonly rounds: number;
  readonly scales: boolean;
}

/** The whole benchmark: everything on one S3 server, contenders in turns. */
export async function engineFigures(
  { rounds, scales }: Settings,
  progress: (text: string) => void,
): Promise<Figures> {
  await using arena = await openArena();
  await fill(arena.store, progress);
  await using front = await openFileFront(arena);
  const all = await contenders(arena.access, arena.dir);
  const atFront = await contenders(front.access, arena.dir);
  const source = join(arena.dir, "source");
  await writeLocal(source, LARGE);
  const samples = new Samples();
  const ceilings = new Map<string, number[]>();
  for (let round = 1; round <= rounds; round++) {
    const say = (text: string) => progress(`round ${round} of ${rounds}: ${text}`);
    const stages = {
      s3: { arena, all: inTurn(all, round) },
      files: { arena: front, all: inTurn(atFront, round) },
    };
    await runRound(stages, source, { samples, round, say });
    say("plain HTTP");
    for (const [name, { of, work }] of Object.entries(CEILINGS)) {
      const { store } = of === "files" ? front : arena;
      const list = ceilings.get(name) ?? [];
      ceilings.set(name, [...list, await seconds(() => work(store))]);
    }
  }
  progress("bytes per random read");
  const fetched = await fetchedPerRead(arena).catch((error: unknown) => ({
    rand_fetched_failed: String(error),
  }));
  const [ours] = all;
  const scaleRounds = Math.min(rounds, SCALE_ROUNDS_MAX);
  const scale =
    scales && ours !== undefined ? await scaleFigures(arena, ours, scaleRounds, progress) : {};
  return {
    rounds,
    s3_server_version: serverVersion(),
    ...versionsOf(all),
    ...caseFigures(samples),
    ...fetched,
    ...ceilingFigures(samples, ceilings),
    ...scale,
  };
}

/** A server, and who mounts from it, in the order of this round. */
interface Stage {
  readonly arena: Arena;
  readonly all: readonly Contender[];
}

interface Round {
  readonly samples: Samples;
  readonly round: number;
  readonly say: (text: string) => void;
}

/** What goes wrong with one contender in one case is told in its figures, and the rest goes on. */
async function runRound(
  stages: { readonly s3: Stage; readonly files: Stage },
  source: string,
  { samples, round, say }: Round,
): Promise<void> {
  type Work = () => Promise<Sample>;
  const attempt = async (name: string, by: string, work: Work) => {
    say(`${name} by ${by}`);
    await run("sync", []); // nobody pays for what the one before has left to the disk
    try {
      samples.add(name, by, await work());
    } catch (error) {
      samples.fail(name, by, error);
    }
  };
  for (const one of CASES) {
    const { arena, all } = stages[one.of ?? "s3"];
    for (let turn = 1; turn <= (one.goes ?? 1); turn++) {
      for (const contender of inTurn(all, turn)) {
        const go = { id: `${contender.name}-${round}-${turn}`, source };
        await attempt(one.name, contender.name, () => measure(arena, contender, one, go));
      }
    }
  }
  for (const contender of stages.s3.all) {
    const work = () => measureMount(stages.s3.arena, contender);
    await attempt("mount", contender.name, work);
  }
}

/** Each round another one begins: nobody always runs behind the same other one. */
function inTurn<T>(all: readonly T[], round: number): T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}

function versionsOf(all: readonly Contender[]): Figures {
  const peers = all.filter(({ name }) => name !== OURS); // ours is said by the report
  return Object.fromEntries(peers.map(({ name, version }) => [`${name}_version`, version]));
}

function caseFigures(samples: Samples): Figures {
  const each = CASES.map(({ name, amount }) => samples.figuresOf(name, amount));
  return Object.assign({}, ...each, samples.figuresOf("mount")) as Figures;
}

function ceilingFigures(samples: Samples, ceilings: ReadonlyMap<string, number[]>): Figures {
  const figures: Record<string, number> = {};
  for (const [name, list] of ceilings) figures[name] = median(list);
  for (const name of ["ls", "find"]) {
    const ours = samples.figuresOf(name)[`${name}_s`];
    const bare = figures[`${name}_bare_s`];
    if (typeof ours === "number" && bare !== undefined) figures[`${name}_vs_bare`] = ours / bare;
  }
  return figures;
}
