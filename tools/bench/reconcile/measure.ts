import { setTimeout as delay } from "node:timers/promises";
import { bundle } from "../../bundle.ts";
import { median, percentile } from "../median.ts";
import type { Figures } from "../part.ts";
import { ControllerProcess } from "./controller-process.ts";
import { MOUNTPOINTS, Stage, inTurns } from "./stage.ts";
import { readCount } from "./write-count.ts";

export interface Scale {
  readonly pods: number;
  readonly volumes: number;
  readonly nodes: number;
  /** Workloads a second. */
  readonly rate: number;
}

/** Workloads that come while the controller is away. */
const LATECOMERS = 50;
/** Nothing tells that a controller has nothing to do: it is given this long to do something. */
const QUIET_MS = 5_000;

/** Two workloads share each Mountpoint Pod, and no more: that is nearly the worst case. */
function placeOf(i: number, scale: Scale): { volume: number; node: number } {
  const volume = i % scale.volumes;
  const pair = Math.floor(i / scale.volumes / 2);
  return { volume, node: (volume + pair) % scale.nodes };
}

/** Who is not, joins a Mountpoint Pod that is there. */
function isFirst(i: number, { volumes }: Scale): boolean {
  return Math.floor(i / volumes) % 2 === 0;
}

export async function measure(scale: Scale, progress: (text: string) => void): Promise<Figures> {
  await bundle();
  await using stage = await Stage.open();
  progress("nodes and volumes");
  await stage.nodes(scale.nodes);
  await stage.volumes(scale.volumes);
  let controller = new ControllerProcess(stage.controllerAccess, MOUNTPOINTS);
  await using last = { [Symbol.asyncDispose]: () => controller[Symbol.asyncDispose]() };
  void last;

  await stage.attached((await stage.workload("first", 0, scale.nodes - 1)).uid); // it is at work
  await settled(stage);
  const before = await callsOf(stage);
  const attachFigures = await attachAll(stage, controller, scale, progress);
  await settled(stage);
  const attached = await callsOf(stage);
  const rssBytes = controller.rssBytes();

  progress("restart");
  await controller[Symbol.asyncDispose]();
  const late = await latecomers(stage, scale);
  const beforeRestart = await callsOf(stage);
  const startedMs = performance.now();
  controller = new ControllerProcess(stage.controllerAccess, MOUNTPOINTS);
  const lastMs = Math.max(...(await Promise.all(late.map((uid) => stage.attached(uid)))));
  await delay(QUIET_MS);
  const afterRestart = await callsOf(stage);

  await detach(stage, scale, progress);
  await settled(stage);
  const detached = await callsOf(stage);
  const all = scale.pods + LATECOMERS + 1;
  return {
    ...scale,
    late_pods: LATECOMERS,
    ...attachFigures,
    writes_per_attach: (attached.writes - before.writes) / scale.pods,
    reads_per_attach: (attached.reads - before.reads) / scale.pods,
    writes_per_detach: (detached.writes - afterRestart.writes) / all,
    rss_mb: Math.max(rssBytes, controller.rssBytes()) / 1e6,
    left_attachments: Array.from(stage.attachments.values()).length,
    left_unmarked_pods: unmarked(stage),
    restart_caught_up_s: (lastMs - startedMs) / 1000,
    restart_useless_writes: afterRestart.writes - beforeRestart.writes - LATECOMERS,
  };
}

/** And who had to work how much for it: all of them share one machine. */
async function attachAll(
  stage: Stage,
  controller: ControllerProcess,
  scale: Scale,
  progress: (text: string) => void,
): Promise<Figures> {
  const cpu = async () => {
    const { user, system } = process.cpuUsage();
    const own = (user + system) / 1e6;
    return [await stage.cpuSeconds(), await controller.cpuSeconds(), own] as const;
  };
  const before = await cpu();
  const ms = await attach(stage, scale, progress);
  const after = await cpu();
  return {
    ...spread("attach", ms),
    ...spread(
      "first",
      ms.filter((_, i) => isFirst(i, scale)),
    ),
    ...spread(
      "join",
      ms.filter((_, i) => !isFirst(i, scale)),
    ),
    api_server_cpu_s: after[0] - before[0],
    controller_cpu_s: after[1] - before[1],
    bench_cpu_s: after[2] - before[2],
  };
}

function spread(name: string, ms: readonly number[]): Figures {
  if (ms.length === 0) return {};
  return { [`${name}_ms_p50`]: median(ms), [`${name}_ms_p99`]: percentile(ms, 0.99) };
}

/** At an even pace, whatever the controller does. */
async function attach(
  stage: Stage,
  scale: Scale,
  progress: (text: string) => void,
): Promise<number[]> {
  const startMs = performance.now();
  const times = Array.from({ length: scale.pods }, async (_, i) => {
    await delay(Math.max(1, startMs + (i * 1000) / scale.rate - performance.now()));
    if (i % 100 === 0) progress(`${i} of ${scale.pods} workloads`);
    const { volume, node } = placeOf(i, scale);
    const { uid, createdMs } = await stage.workload(`w-${i}`, volume, node);
    return Math.max(0, (await stage.attached(uid)) - createdMs);
  });
  return Promise.all(times);
}

/** Each joins what is there: one write, no more. */
async function latecomers(stage: Stage, scale: Scale): Promise<string[]> {
  const uids: string[] = [];
  await inTurns(LATECOMERS, async (i) => {
    const { volume, node } = placeOf(i, scale);
    uids.push((await stage.workload(`late-${i}`, volume, node)).uid);
  });
  return uids;
}

async function detach(stage: Stage, scale: Scale, progress: (text: string) => void): Promise<void> {
  const names = ["first", ...Array.from({ length: scale.pods }, (_, i) => `w-${i}`)];
  names.push(...Array.from({ length: LATECOMERS }, (_, i) => `late-${i}`));
  await inTurns(names.length, async (i) => {
    if (i % 100 === 0) progress(`${i} of ${names.length} workloads deleted`);
    await stage.removeWorkload(names[i] ?? "");
  });
  progress("until nothing is left");
  const limit = AbortSignal.any([stage.signal, AbortSignal.timeout(300_000)]);
  await stage.attachments.until(isEmpty, limit).catch(() => undefined); // told by the figures
  await stage.mountpointPods.until(isEmpty, limit).catch(() => undefined);
}

/** Until every Mountpoint Pod runs and the controller has said its last word on that. */
async function settled(stage: Stage): Promise<void> {
  await stage.mountpointPods.until((list) => {
    const waiting = list.values().some(({ phase }) => phase === "Pending");
    return waiting ? undefined : true;
  }, stage.signal);
  await delay(QUIET_MS);
}

/** The controller's own. */
async function callsOf(stage: Stage): Promise<{ writes: number; reads: number }> {
  const counted = await readCount(stage.client, () => stage.metrics(), stage.signal);
  const writes = counted.pods - stage.podWrites + counted.attachments + counted.events;
  return { writes, reads: counted.reads };
}

function unmarked(stage: Stage): number {
  return Array.from(stage.mountpointPods.values()).filter((pod) => !pod.marked).length;
}

function isEmpty(list: { values(): Iterable<unknown> }): true | undefined {
  const [first] = list.values();
  return first === undefined ? true : undefined;
}
