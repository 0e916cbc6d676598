import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import type { EngineKiller } from "./engine-killer.ts";
import type { VictimReport } from "./victim.ts";

const VICTIM = join(import.meta.dirname, "victim.ts");
const CHUNK_BYTES = 1 << 20;
/** From the victim's word to the kill: some calls of it, so that none is like another. */
const KILL_DELAY_MAX_MS = 20;
/** At the end there shall be something left to do when the last kill comes. */
const LAST_CHUNKS = 16;

export interface UnderKills {
  readonly verb: "read" | "write";
  readonly path: string;
  readonly sizeBytes: number;
  readonly kills: number;
  readonly killer: EngineKiller;
  /** After each kill, before the next engine can have done anything. */
  readonly onKilled?: () => void;
}

/**
 * Lets the victim do its work while the engine is killed at random moments of it. Its progress
 * decides, not the clock: so the kills are spread over the whole file, however long they take.
 * Gives the longest call that each kill has caused; fails when the victim saw an error.
 */
export async function underKills(given: UnderKills): Promise<number[]> {
  const { verb, path, sizeBytes, kills, killer, onKilled } = given;
  const places = randomPlaces(sizeBytes / CHUNK_BYTES - LAST_CHUNKS, kills);
  const args = [VICTIM, verb, path, String(sizeBytes), ...places.map(String)];
  const victim = spawn("setpriv", ["--pdeathsig", "KILL", "--", process.execPath, ...args], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const exited = once(victim, "exit");
  const [out, err, marked] = victim.stdio.slice(1) as [Readable, Readable, Readable];
  const said = Promise.all([text(out), text(err)]);
  let working = Promise.resolve();
  marked.on("data", (marks: Buffer) => {
    for (const _ of marks) {
      working = working.then(async () => {
        await delay(Math.random() * KILL_DELAY_MAX_MS);
        await killer.kill();
        onKilled?.();
      });
    }
  });
  const first = killer.kills;
  const [[code], [stdout, stderr]] = await Promise.all([exited, said]);
  await working;
  if (code !== 0) throw new Error(`${verb} of ${path} failed: ${stderr}`);
  return pausesOf(killer.killedAtMs.slice(first), JSON.parse(stdout) as VictimReport);
}

/** One in each of as many equal stretches: no two the same, and none in the very first chunk. */
export function randomPlaces(chunks: number, count: number, random = Math.random): number[] {
  const stretch = chunks / count;
  return Array.from({ length: count }, (_, n) => {
    const [before, last] = [Math.floor(n * stretch), Math.floor((n + 1) * stretch)];
    return before + 1 + Math.floor(random() * (last - before));
  });
}

/** By kill: the longest call that ended after it and began before the next. */
export function pausesOf(killedAtMs: readonly number[], { slow }: VictimReport): number[] {
  return killedAtMs.map((killMs, n) => {
    const nextMs = killedAtMs[n + 1] ?? Infinity;
    const held = slow.filter(([startMs, endMs]) => endMs > killMs && startMs < nextMs);
    return Math.max(0, ...held.map(([startMs, endMs]) => endMs - startMs));
  });
}
