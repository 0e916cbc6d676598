import { join } from "node:path";
import { run } from "../../run.ts";
import { startScalityFront } from "../../stack/scality-server.ts";
import { workerMain } from "../apart.ts";
import { openArena } from "../engine/arena.ts";
import type { Arena } from "../engine/arena.ts";
import { ourEngine } from "../engine/contenders.ts";
import type { Contender } from "../engine/contenders.ts";
import { limit, writeLocal } from "../engine/content.ts";
import { Mounted } from "../engine/mounted.ts";
import { median } from "../median.ts";
import type { Figures } from "../part.ts";
import { sumFigures } from "./sums.ts";

const MIB = 1 << 20;
const FILE_MIB = 512;

/** CPU seconds of an engine per GiB written, by what S3 verifies; in turns, the medians. */
async function integrityFigures(rounds: number, progress: (text: string) => void) {
  progress("sums alone");
  const sums = await sumFigures(rounds);
  await using arena = await openArena();
  await using front = await startScalityFront(arena.access);
  const ignoring = { ...arena.access, endpoint: front.url };
  const engines = {
    unverified: await ourEngine(ignoring, ["--upload-checksums", "off"]),
    crc32: await ourEngine(arena.access),
    crc32_and_md5: await ourEngine(ignoring),
  };
  const source = join(arena.dir, "source");
  await writeLocal(source, { key: "source", sizeBytes: FILE_MIB * MIB });
  const costs = new Map<string, number[]>();
  for (let round = 1; round <= rounds; round++) {
    for (const [name, engine] of Object.entries(engines)) {
      progress(`round ${round} of ${rounds}: ${name}`);
      costs.set(name, [...(costs.get(name) ?? []), await costOf(arena, engine, source)]);
    }
  }
  const figures = [...costs].map(([name, all]) => [`${name}_cpu_s_per_gib`, median(all)]);
  return { rounds, file_mib: FILE_MIB, ...sums, ...(Object.fromEntries(figures) as Figures) };
}

async function costOf(arena: Arena, engine: Contender, source: string): Promise<number> {
  await using mounted = await Mounted.start(arena, engine);
  const before = await mounted.use();
  const target = join(mounted.directory, "new");
  await run("dd", [`if=${source}`, `of=${target}`, "bs=1M", "status=none"]);
  const after = await mounted.use();
  await arena.store.delete("new", limit());
  return ((after.cpuSeconds - before.cpuSeconds) * 1024) / FILE_MIB;
}

await workerMain(([rounds], progress) => integrityFigures(Number(rounds), progress));
