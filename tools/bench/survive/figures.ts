import { ListMultipartUploadsCommand } from "@aws-sdk/client-s3";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { clientOf } from "../../stack/s3-client.ts";
import { BUCKET, openArena, serverVersion } from "../engine/arena.ts";
import type { Arena } from "../engine/arena.ts";
import { ourEngine } from "../engine/contenders.ts";
import type { Contender } from "../engine/contenders.ts";
import { checkObject, limit, putLarge } from "../engine/content.ts";
import { Mounted } from "../engine/mounted.ts";
import type { Figures } from "../part.ts";
import { costFigures } from "./cost.ts";
import { EngineKiller } from "./engine-killer.ts";
import { FinishedParts } from "./finished-parts.ts";
import { RequestLog } from "./request-log.ts";
import { underKills } from "./under-kills.ts";

const MIB = 1 << 20;
const IDLE_AFTER_MS = 3_000;
/** The kernel sends what was not answered again, or only the slots know of it. */
const MODES = { resend: [], slots: ["--no-resend"] } as const;

/** Read quickly, before the next engine begins. */
const SMALL_JOURNAL = ["--inode-limit", "1000"];

export interface Settings {
  readonly readMib: number;
  readonly readKills: number;
  readonly writeMib: number;
  readonly writeKills: number;
  readonly pairs: number;
}

export async function surviveFigures(
  settings: Settings,
  progress: (text: string) => void,
): Promise<Figures> {
  await using arena = await openArena();
  const figures: Record<string, number | string> = {
    s3_server_version: serverVersion(),
    read_mib: settings.readMib,
    write_mib: settings.writeMib,
    cost_pairs: settings.pairs,
  };
  progress(`content: ${settings.readMib} MiB`);
  const object = { key: "read", sizeBytes: settings.readMib * MIB };
  await putLarge(arena.store, object);
  for (const [mode, options] of Object.entries(MODES)) {
    progress(`${mode}: reading under ${settings.readKills} kills`);
    Object.assign(figures, prefixed(mode, await readFigures(arena, options, settings)));
    progress(`${mode}: writing under ${settings.writeKills} kills`);
    Object.assign(figures, prefixed(mode, await writeFigures(arena, options, settings)));
  }
  progress("memory when idle");
  Object.assign(figures, await memoryFigures(arena));
  Object.assign(figures, await costFigures(arena, settings.pairs, progress));
  return figures;
}

async function readFigures(arena: Arena, options: readonly string[], settings: Settings) {
  await using mounted = await Mounted.start(arena, await ourEngine(arena.access, options));
  const killer = new EngineKiller(mounted.process);
  const path = join(mounted.directory, "read");
  const [sizeBytes, kills] = [settings.readMib * MIB, settings.readKills];
  try {
    const pauses = await underKills({ verb: "read", path, sizeBytes, kills, killer });
    const sorted = pauses.toSorted((left, right) => left - right);
    const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
    return {
      read_kills: killer.kills,
      read_ok: 1,
      pause_ms_p50: at(0.5),
      pause_ms_p95: at(0.95),
      pause_ms_max: at(1),
    };
  } catch (error) {
    return { read_kills: killer.kills, read_ok: 0, read_failure: String(error) };
  }
}

async function writeFigures(arena: Arena, options: readonly string[], settings: Settings) {
  await using log = await RequestLog.start(arena.access.endpoint);
  const finished = new FinishedParts(log);
  const access = { ...arena.access, endpoint: log.endpoint };
  const ours = await ourEngine(access, [...options, ...SMALL_JOURNAL]);
  const object = { key: "written", sizeBytes: settings.writeMib * MIB };
  const failure = await writeOnce(arena, ours, object, settings.writeKills, finished);
  await arena.store.delete(object.key, limit());
  return {
    ...failure,
    finished_parts_known: finished.known,
    finished_parts_sent_again: finished.sentAgain,
    parts_taken_twice: log.takenTwice,
    dangling_uploads: await unfinishedUploads(arena),
  };
}

async function writeOnce(
  arena: Arena,
  ours: Contender,
  object: { readonly key: string; readonly sizeBytes: number },
  kills: number,
  finished: FinishedParts,
) {
  await using mounted = await Mounted.start(arena, ours);
  const killer = new EngineKiller(mounted.process);
  const path = join(mounted.directory, object.key);
  const onKilled = () => finished.look(killer.supervisorPid);
  const { sizeBytes } = object;
  try {
    await underKills({ verb: "write", path, sizeBytes, kills, killer, onKilled });
    await checkObject(arena.store, object);
    return { write_kills: killer.kills, write_ok: 1 };
  } catch (error) {
    return { write_kills: killer.kills, write_ok: 0, write_failure: String(error) };
  }
}

async function unfinishedUploads({ access }: Arena): Promise<number> {
  const client = clientOf(access);
  try {
    const found = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
    return found.Uploads?.length ?? 0;
  } finally {
    client.destroy();
  }
}

async function memoryFigures(arena: Arena): Promise<Figures> {
  await using mounted = await Mounted.start(arena, await ourEngine(arena.access));
  await delay(IDLE_AFTER_MS);
  const { supervisorPid, enginePid = 0 } = new EngineKiller(mounted.process);
  return { supervisor_pss_mb: pssMb(supervisorPid), engine_pss_mb: pssMb(enginePid) };
}

/** What a process costs the machine, with its share of what it has in common with others. */
function pssMb(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return (Number(/^Pss:\s*(\d+) kB/m.exec(rollup)?.[1]) * 1024) / 1e6;
}

function prefixed(mode: string, figures: Figures): Figures {
  const entries = Object.entries(figures);
  return Object.fromEntries(entries.map(([name, value]) => [`${mode}_${name}`, value]));
}
