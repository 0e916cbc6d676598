import { median, percentile } from "../median.ts";
import type { Figures } from "../part.ts";
import type { PodMemory } from "./pod-memory.ts";
import type { Published } from "./published.ts";
import type { Departure } from "./stage.ts";

/** The first publish of a Mountpoint Pod. */
export interface FirstPublished extends Published {
  readonly containerStartedMs: number;
}

/** All that was measured, one entry per round. */
export interface Samples {
  readonly floorMs: readonly number[];
  readonly firstReadyMs: readonly number[];
  readonly secondReadyMs: readonly number[];
  readonly burstFloorMs: readonly number[];
  /** As many pods as a burst of volumes makes, with their Mountpoint Pods. */
  readonly doubleFloorMs: readonly number[];
  readonly burstVolumesMs: readonly number[];
  readonly burstOneMs: readonly number[];
  readonly departures: readonly Departure[];
  readonly first: readonly FirstPublished[];
  readonly shared: readonly Published[];
  readonly burstPublished: readonly (readonly Published[])[];
  readonly memory: PodMemory;
}

/** Prefix of the names of the tuned node's figures. */
export const TUNED = "tuned_";
const PARTS = ["attachment_ms", "scheduled_ms", "mounter_ms", "engine_ms", "bind_ms"];

export function figuresOf(samples: Samples): Figures {
  const { floorMs, firstReadyMs, secondReadyMs, departures, first, shared, memory } = samples;
  const sharedMs = shared.map(({ totalMs }) => totalMs);
  const floor = median(floorMs);
  return {
    rounds: floorMs.length,
    pod_floor_ms_p50: floor,
    first_ready_ms: median(firstReadyMs),
    first_over_floor_ms: median(firstReadyMs) - floor,
    second_ready_ms: median(secondReadyMs),
    second_over_floor_ms: median(secondReadyMs) - floor,
    mp_gone_ms: median(departures.map((it) => it.mountpointGoneMs - it.goneMs)),
    teardown_ms_p50: median(departures.map((it) => it.mounterEndedMs - it.endedMs)),
    burst20_pvs_s: median(samples.burstVolumesMs) / 1000,
    burst20_pvs_each_s: inSeconds(samples.burstVolumesMs),
    burst20_one_s: median(samples.burstOneMs) / 1000,
    burst20_floor_s: median(samples.burstFloorMs) / 1000,
    burst40_floor_s: median(samples.doubleFloorMs) / 1000,
    burst20_s: median(samples.burstPublished.map(spanMs)) / 1000,
    shared_publishes: shared.length,
    shared_ms_p50: median(sharedMs),
    shared_ms_p99: percentile(sharedMs, 0.99),
    new_ms_p50: median(first.map(({ totalMs }) => totalMs)),
    new_own_ms_p50: median(first.map((it) => it.atMs - it.containerStartedMs)),
    new_start_ms_p50: median(first.map(startMs)),
    ...partFigures(first),
    idle_rss_mib: memory.rssMib,
    idle_anonymous_mib: memory.anonymousMib,
    idle_pss_mib: memory.pssMib,
  };
}

/** The figures of the tuned node, under names of their own. */
export function tunedFigures(figures: Figures): Figures {
  const entries = Object.entries(figures).map(([name, value]) => [`${TUNED}${name}`, value]);
  return Object.fromEntries(entries) as Figures;
}

/** Every one of them, in the order of the rounds. */
function inSeconds(timesMs: readonly number[]): string {
  return timesMs.map((ms) => (ms / 1000).toFixed(1)).join(", ");
}

/** From the start of the container to the mounter's socket: what comes after that is in parts. */
function startMs({ atMs, containerStartedMs, parts }: FirstPublished): number {
  return atMs - containerStartedMs - (parts["engine_ms"] ?? 0) - (parts["bind_ms"] ?? 0);
}

function partFigures(first: readonly Published[]): Figures {
  const figures = PARTS.map((part) => {
    const values = first.map(({ parts }) => parts[part] ?? 0);
    return [`new_${part}_p50`, median(values)] as const;
  });
  return Object.fromEntries(figures);
}

/** From the first question to the last answer. */
function spanMs(published: readonly Published[]): number {
  const startsMs = published.map(({ atMs, totalMs }) => atMs - totalMs);
  return Math.max(...published.map(({ atMs }) => atMs)) - Math.min(...startsMs);
}
