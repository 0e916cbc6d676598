import { Failure } from "../base/failure.ts";
import type { Source } from "./kept-mount.ts";
import { WAITS_FOR_ATTACHMENT } from "./preparations.ts";
import type { Preparation, Step } from "./preparations.ts";
import type { VolumeTurn } from "./volume-turn.ts";

/**
 * How long one NodePublishVolume waits. The kubelet works on a volume for one pod at a time, so a
 * call that waits keeps the node's other pods from mounting and unmounting it. A call that answers
 * Unavailable is repeated after 0.5 s, doubled each time up to 122 s. Decision 30 has the figures.
 */
export interface PublishTimes {
  /** The wait with a known cause. */
  readonly causeAfterMs: number;
  /** The wait until the controller has assigned a Mountpoint Pod. */
  readonly attachmentWithinMs: number;
  /** The wait for an assigned Mountpoint Pod where no cause is known. */
  readonly sourceWithinMs: number;
  /** The wait before the turn is given to a pod that has finished and is to be unmounted. */
  readonly turnAfterMs: number;
}

export const PUBLISH_TIMES: PublishTimes = {
  causeAfterMs: 3_000,
  attachmentWithinMs: 8_000,
  sourceWithinMs: 30_000,
  turnAfterMs: 1_000,
};

/** The prepared source, or a Failure that tells the kubelet to ask again. */
export async function untilPrepared(
  preparation: Preparation,
  turn: Pick<VolumeTurn, "neededBy" | "onNeeded">,
  times: PublishTimes,
  signal: AbortSignal,
): Promise<Source> {
  using _awaited = preparation.awaited();
  const { promise: early, reject } = Promise.withResolvers<never>();
  const startedMs = performance.now();
  const look = () => {
    const waitedMs = performance.now() - startedMs;
    const answer = earlyAnswer(preparation.step, waitedMs, times, () => turn.neededBy());
    if (answer !== undefined) reject(new Failure("remote", answer));
  };
  const late = () => reject(new Failure("timeout", lateWords(preparation.step)));
  using _change = preparation.onChange(look);
  using _turn = turn.onNeeded(look);
  // A timer may fire a fraction of a millisecond before its time.
  const timers = Object.values(times).map((ms: number) => setTimeout(look, ms + 1));
  signal.addEventListener("abort", late, { once: true });
  if (signal.aborted) late();
  try {
    return await Promise.race([preparation.source, early]);
  } finally {
    for (const timer of timers) clearTimeout(timer);
    signal.removeEventListener("abort", late);
  }
}

/** Why a publish that has waited this long answers without its volume; undefined: it waits on. */
export function earlyAnswer(
  step: Step,
  waitedMs: number,
  times: PublishTimes,
  neededBy: () => string | undefined,
): string | undefined {
  const limitMs = step.isAssigned ? times.sourceWithinMs : times.attachmentWithinMs;
  if (waitedMs >= limitMs) return lateWords(step);
  if (waitedMs >= times.causeAfterMs && step.cause() !== undefined) return lateWords(step);
  const pod = waitedMs >= times.turnAfterMs ? neededBy() : undefined;
  if (pod === undefined) return undefined;
  return `still waiting for ${step.waitsFor}: the volume of pod ${pod} is unmounted first`;
}

function lateWords({ waitsFor, isAssigned, cause }: Step): string {
  const why = cause();
  if (isAssigned) {
    return `Timed out waiting for ${waitsFor}${why === undefined ? "" : `: ${why}`}`;
  }
  return why ?? `Timed out waiting for ${WAITS_FOR_ATTACHMENT}: is the controller running?`;
}
