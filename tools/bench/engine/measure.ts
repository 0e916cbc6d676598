import { stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Arena } from "./arena.ts";
import type { Case } from "./cases.ts";
import type { Contender } from "./contenders.ts";
import { LARGE } from "./content.ts";
import { Mounted } from "./mounted.ts";
import { useOf } from "./process-tree.ts";
import type { Sample } from "./samples.ts";

const CASE_LIMIT_MS = 180_000;
const IDLE_AFTER_MS = 1_000;

export async function seconds(work: () => PromiseLike<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1000;
}

/** One go of one contender at a case: a fresh mount, the work by the clock, then the check. */
export async function measure(
  arena: Arena,
  contender: Contender,
  { work, check }: Case,
  go: { readonly id: string; readonly source: string },
): Promise<Sample> {
  await using mounted = await Mounted.start(arena, contender);
  const attempt = { ...go, directory: mounted.directory, store: arena.store };
  const kill = () => mounted.kill().catch(() => {}); // tried again, and told, at the end
  const killer = setTimeout(() => void kill(), CASE_LIMIT_MS);
  try {
    const [before, serverBefore] = [await mounted.use(), await useOf(arena.serverPid)];
    let printed: string | void = undefined;
    const s = await seconds(async () => (printed = await work(attempt)));
    const [after, serverAfter] = [await mounted.use(), await useOf(arena.serverPid)];
    await check?.(attempt, printed ?? "");
    return {
      s,
      cpu_s: after.cpuSeconds - before.cpuSeconds,
      server_cpu_s: serverAfter.cpuSeconds - serverBefore.cpuSeconds,
      rss_mb: Math.max(...after.peakRssMb),
    };
  } finally {
    clearTimeout(killer);
  }
}

/** From the start of the program to its first answer about a file; what it holds when idle. */
export async function measureMount(arena: Arena, contender: Contender): Promise<Sample> {
  const serverBefore = await useOf(arena.serverPid);
  const startedMs = performance.now();
  await using mounted = await Mounted.start(arena, contender);
  const { size } = await stat(join(mounted.directory, LARGE.key));
  const s = (performance.now() - startedMs) / 1000;
  if (size !== LARGE.sizeBytes) throw new Error(`${LARGE.key} is said to have ${size} bytes`);
  const serverAfter = await useOf(arena.serverPid);
  await delay(IDLE_AFTER_MS);
  const { cpuSeconds, rssMb } = await mounted.use();
  const [first = 0, ...children] = rssMb;
  return {
    s,
    cpu_s: cpuSeconds,
    server_cpu_s: serverAfter.cpuSeconds - serverBefore.cpuSeconds,
    rss_mb: Math.max(...rssMb),
    ...(children.length === 0 ? {} : { supervisor_rss_mb: first }),
  };
}
