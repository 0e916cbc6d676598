import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { processesOf } from "../../tools/stack/processes.ts";
import { mountShipped } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { lowestMemoryMib } from "./process-figures.ts";
import { SoakCrew } from "./soak-crew.ts";
import { workElsewhere } from "./soak-elsewhere.ts";
import { SoakFaults, SOAK_FAULTS } from "./soak-faults.ts";
import { SoakLedger } from "./soak-ledger.ts";
import { SoakProxy } from "./soak-proxy.ts";
import { Random } from "./soak-random.ts";
import { sharedMs } from "./soak-report.ts";
import type { LedgerFault } from "./soak-report.ts";
import { claimedBy, contentOf, HEADER_BYTES } from "./soak-version.ts";
import { TestBucket } from "./test-bucket.ts";

const FULL = process.env["FULL"] === "1";
const PROGRAMS = 24;
const DURATION_MS = FULL ? 3_600_000 : 30_000;
/** Engines are killed in the first third alone: later one process must stay as large as it is. */
const ENGINE_KILLS_MS = DURATION_MS / 3;
const WINDOW_MS = DURATION_MS / 6;
const SEED = Number(process.env["SEED"] ?? Date.now() % 1_000_000);
const OUTAGE_LIMIT_S = 1;
/**
 * A call that S3 fails in turns takes some outage limits; what a program does between two looks at
 * the clock is a few dozen calls. Beyond this time it hangs.
 */
const FINISH_LIMIT_MS = 120_000;
/** The engine ends every upload when it is told to end: S3 is in order by then. */
const END_LIMIT_MS = 60_000;
/** Of a process that has worked for a while; one that has just started holds less. */
const WARM_MIB = 80;
const GROWTH_MIB_MAX = 48;
/** In the environment of all that the soak starts: by this they are found when they are left. */
const MARK = "S3CSI_SOAK";
const SHOWN_FAULTS = 4;
/** A soak in which nothing works proves nothing. A slow machine does more than that, too. */
const CALLS_THAT_SUCCEED = ["open", "close", "read", "unlink"] as const;
const SUCCESSES_MIN = 5;
const SUCCESS_SHARE_MIN = 1 / 4;
/** A share of fewer calls says nothing: a slow machine does less under the faults. */
const SHARED_CALLS_MIN = 40;
/** When all faults are over, files are written, read and deleted without any error. */
const CALM_SIZES = [0, 1, 100_000, 6_000_000, 11_000_000];

const ARGS = [
  ["--allow-delete", "--allow-overwrite", "--memory-target", "128"],
  ["--part-size", "5242880", "--outage-limit", String(OUTAGE_LIMIT_S)],
].flat();

/** Kills the engine again and again, or replaces it on purpose. */
async function killEngines({ engine }: MountedBucket, killer: EngineKiller, proxy: SoakProxy) {
  const random = new Random(SEED + 3);
  for (let leftMs = ENGINE_KILLS_MS; ;) {
    const pauseMs = random.between(300, 3_000);
    leftMs -= pauseMs;
    if (leftMs < 0) return;
    await delay(pauseMs);
    await killer.untilServing();
    if (random.chance(0.7)) await killer.kill();
    else engine.child.kill("SIGHUP");
    proxy.engineDied();
  }
}

async function killPrograms(crew: SoakCrew): Promise<void> {
  const random = new Random(SEED + 4);
  for (;;) {
    await delay(random.between(200, 2_500));
    if (sharedMs() > crew.endAtMs) return;
    crew.killOne();
  }
}

async function judge(bucket: TestBucket, ledger: SoakLedger): Promise<void> {
  const keys = new Set(await bucket.keys());
  for (const file of new Set([...ledger.files, ...keys])) {
    const body = keys.has(file) ? await bucket.get(file) : undefined;
    const claimed = body && claimedBy(body);
    const sizeBytes = body?.length ?? 0;
    const isWhole = claimed && contentOf(claimed).subarray(0, sizeBytes).equals(body);
    if (body !== undefined && sizeBytes >= HEADER_BYTES && isWhole !== true) {
      const what = `${file} has ${sizeBytes} bytes, which claim to be ${claimed?.writer}`;
      ledger.odd("an object is of no version", what);
    }
    const is = claimed ?? body;
    const found = is && { sizeBytes, is };
    ledger.history(file).saw({ who: "the end", begin: Infinity, end: Infinity, found });
  }
}

/** How many there are of each kind, and some of them in full. */
function summaryOf(found: readonly LedgerFault[]): string {
  const kinds = Map.groupBy(found, ({ kind }) => kind);
  const parts = [...kinds].map(([kind, faults]) => {
    const shown = faults.slice(0, SHOWN_FAULTS).map(({ what }) => `  ${what}`);
    return `${faults.length} times: ${kind}\n${shown.join("\n")}`;
  });
  return `${found.length} faults\n${parts.join("\n")}`;
}

async function within<T>(limitMs: number, what: string, work: Promise<T>): Promise<T> {
  const limit = new AbortController();
  const late = delay(limitMs, undefined, { signal: limit.signal }).then(() => {
    throw new Error(`${what}: not within ${limitMs / 1000} s`);
  });
  late.catch(() => undefined);
  return Promise.race([work, late]).finally(() => limit.abort());
}

async function workCalmly(dir: string): Promise<void> {
  for (const [n, sizeBytes] of CALM_SIZES.entries()) {
    const file = join(dir, `calm-${n}`);
    const content = Buffer.alloc(sizeBytes, `calm ${n} `);
    await writeFile(file, content);
    assert(content.equals(await readFile(file)), `${file} differs`);
    await unlink(file);
    await assert.rejects(stat(file), { code: "ENOENT" });
  }
}

function checkSuccesses(
  underFaults: ReadonlyMap<string, number>,
  inAll: ReadonlyMap<string, number>,
): void {
  for (const call of CALLS_THAT_SUCCEED) {
    const results = [...underFaults].filter(([what]) => what.startsWith(`${call} `));
    const calls = results.reduce((sum, [, count]) => sum + count, 0);
    const successes = underFaults.get(`${call} ok`) ?? 0;
    const isEnough = calls < SHARED_CALLS_MIN || successes >= calls * SUCCESS_SHARE_MIN;
    assert(isEnough, `${call} has succeeded ${successes} times of ${calls} under faults`);
    const total = inAll.get(`${call} ok`) ?? 0;
    assert(total >= SUCCESSES_MIN, `${call} has succeeded ${total} times`);
  }
}

function countsOf(counts: ReadonlyMap<string, number>): string {
  const sorted = [...counts].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return sorted.map(([name, count]) => `${name} ${count}`).join(", ");
}

test(`${PROGRAMS} programs, a bad S3 and kills: no byte is wrong, SEED=${SEED}`, async (t) => {
  const endsAmidWork = SEED % 2 === 1;
  const resend = SEED % 4 < 2 ? [] : ["--no-resend"];
  const ledger = new SoakLedger();
  await using bucket = await TestBucket.start();
  const faults = new SoakFaults(SEED, DURATION_MS - WINDOW_MS);
  await using proxy = await SoakProxy.start(bucket, faults);
  const env = { AWS_MAX_ATTEMPTS: "3", [MARK]: proxy.url };
  const args = [...ARGS, "--endpoint-url", proxy.url, ...resend];
  await using mount = await mountShipped(bucket, args, env);
  const killer = new EngineKiller(mount.engine.child);
  const plan = { dir: mount.dir, programs: PROGRAMS, seed: SEED + 1, durationMs: DURATION_MS };
  faults.begin();
  await using crew = new SoakCrew(plan, ledger);
  proxy.onStall = (key) => void crew.interruptOneAt(key);
  const ends = new AbortController();
  const elsewhere = workElsewhere({ bucket, proxy, ledger, seed: SEED + 2 }, ends.signal);
  const killing = Promise.all([killEngines(mount, killer, proxy), killPrograms(crew)]);

  await delay(ENGINE_KILLS_MS);
  await killer.untilServing();
  const supervisorPid = mount.engine.child.pid ?? 0;
  const thirdMib = await lowestMemoryMib(supervisorPid, WINDOW_MS);
  await delay(crew.endAtMs - sharedMs() - WINDOW_MS);
  faults.end();
  const countsUnderFaults = new Map(ledger.counts);
  const [wholeMib] = await Promise.all([
    lowestMemoryMib(supervisorPid, WINDOW_MS),
    within(FINISH_LIMIT_MS, "work without faults", workCalmly(mount.dir)),
  ]);
  ends.abort();
  await elsewhere;

  crew.close();
  if (!endsAmidWork) {
    await within(FINISH_LIMIT_MS, "the programs end", crew.ended);
  }
  ledger.endsAt = sharedMs();
  const { status } = await within(END_LIMIT_MS, "the end", mount.engine.stop("SIGTERM"));
  await killing;
  await crew.stop();
  await proxy.idle();

  await judge(bucket, ledger);
  const [thirdText, wholeText] = [thirdMib, wholeMib].map((mib) => `${mib.toFixed()} MiB`);
  const memory = `memory: ${thirdText} after a third, ${wholeText} at the end`;
  const of = `of programs, ${crew.interruptions} interruptions`;
  const kills = `${killer.kills} kills of the engine, ${crew.kills} ${of}`;
  const lines = [countsOf(ledger.counts), countsOf(faults.counts), kills, memory, ""];
  t.diagnostic(lines.join("\n"));
  const uploads = await bucket.unfinishedUploads();
  const processes = await processesOf(`${MARK}=${proxy.url}`);
  const mounts = readFileSync("/proc/mounts", "utf8");
  if (uploads > 0) ledger.odd("uploads are left", String(uploads));
  if (status !== 0) ledger.odd("the mount does not end with 0", String(status));
  if (mounts.includes(mount.dir)) ledger.odd("the mount is left", mount.dir);
  if (processes.length > 0) ledger.odd("processes are left", processes.join(", "));
  const memoryMaxMib = Math.max(thirdMib, WARM_MIB) + GROWTH_MIB_MAX;
  if (wholeMib > memoryMaxMib) ledger.odd("memory grows", memory);
  const found = ledger.faults((file) => proxy.failuresOf(file));
  assert.equal(found.length, 0, summaryOf(found));
  checkSuccesses(countsUnderFaults, ledger.counts);
  assert(crew.interruptions > 0, "no program was interrupted while it waited for S3");
  for (const fault of SOAK_FAULTS) assert(faults.counts.has(fault), `${fault} never happened`);
});
