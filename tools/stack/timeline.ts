import type { Cluster } from "./cluster.ts";
import { driverLog } from "./driver.ts";

/** When each part of a first publish was done, in ms after the workload was created. */
export interface Timeline {
  readonly scheduled: number;
  readonly attached: number;
  readonly mounterRuns: number;
  readonly engineReady: number;
  readonly bound: number;
}

interface LogLine {
  readonly time: string;
  readonly [field: string]: unknown;
}

/** From the logs of controller and node service, which share this machine's clock. */
export async function timelineOf(
  cluster: Cluster,
  pod: string,
  createdAtMs: number,
): Promise<Timeline> {
  const uid = await cluster.kubectl(["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"]);
  const attached = await lineOf(cluster, "controller", [
    `"workload":"default/${pod}"`,
    "workload attached",
  ]);
  const published = await lineOf(cluster, "node", [uid, "volume published"]);
  const at = (line: LogLine) => Date.parse(line.time) - createdAtMs;
  const bound = at(published);
  const engineReady = bound - ms(published, "bind_ms");
  return {
    scheduled: at(attached) - ms(attached, "sinceScheduledSeenMs"),
    attached: at(attached),
    mounterRuns: engineReady - ms(published, "engine_ms"),
    engineReady,
    bound,
  };
}

async function lineOf(
  cluster: Cluster,
  part: Parameters<typeof driverLog>[1],
  words: readonly string[],
): Promise<LogLine> {
  const log = await driverLog(cluster, part);
  const line = log.split("\n").find((one) => words.every((word) => one.includes(word)));
  if (line === undefined)
    throw new Error(`no line with ${words.join(", ")} in the log of the ${part}`);
  return JSON.parse(line) as LogLine;
}

function ms(line: LogLine, field: string): number {
  return Number(line[field] ?? 0);
}
