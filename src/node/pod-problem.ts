import type { Pod } from "../kube/resource.ts";

/** Every container waits for these. */
const STARTING: ReadonlySet<string> = new Set(["ContainerCreating", "PodInitializing"]);

/** Why a pod does not run yet, as its status has it; undefined when nothing is known. */
export function problemOf({ status }: Pod): string | undefined {
  const conditions = status?.conditions ?? [];
  const unscheduled = conditions.find(
    ({ type, status: holds }) => type === "PodScheduled" && holds === "False",
  );
  // A pod that has preempted others gets their place: nothing is wrong.
  const isNominated = (status?.nominatedNodeName ?? "") !== "";
  if (unscheduled !== undefined && !isNominated) {
    return sentenceOf(unscheduled.reason ?? "Unschedulable", unscheduled.message);
  }
  for (const { state, lastState } of status?.containerStatuses ?? []) {
    const { waiting } = state ?? {};
    if (waiting?.reason !== undefined && !STARTING.has(waiting.reason)) {
      const ended = lastState?.terminated?.reason;
      const before = ended === undefined ? "" : ` (it ended before: ${ended})`;
      return `${sentenceOf(waiting.reason, waiting.message)}${before}`;
    }
  }
  if (status?.phase === "Failed") return sentenceOf(status.reason ?? "Failed", status.message);
  return undefined;
}

function sentenceOf(reason: string, message: string | undefined): string {
  return message === undefined || message === "" ? reason : `${reason}: ${message}`;
}
