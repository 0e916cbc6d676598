import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { EVENTS } from "../../../src/kube/resource.ts";
import { DRIVER_NAME } from "../../../src/volume/names.ts";

const WRITES = new Set(["POST", "PUT", "PATCH", "DELETE", "APPLY"]);
const LINE = /^apiserver_request_total\{(.*)\} (\S+)$/gm;
const LABEL = /(\w+)="([^"]*)"/g;

/** The API server's own count of the writes that it was asked for, refused ones too. */
export interface Counted {
  readonly pods: number;
  readonly attachments: number;
  readonly events: number;
  /** Of single pods and attachments: nobody but the controller reads them so. */
  readonly reads: number;
}

/**
 * Writes of attachments are all the controller's; of pods (not of their parts, status and binding)
 * the bench knows its own. Who asked the server does not say, so nobody else may write pods.
 */
export function countWrites(metrics: string): Omit<Counted, "events"> {
  let [pods, attachments, reads] = [0, 0, 0];
  for (const [, text = "", value = ""] of metrics.matchAll(LINE)) {
    const labels = Object.fromEntries(Array.from(text.matchAll(LABEL), ([, k, v]) => [k, v]));
    const isWrite = WRITES.has(labels["verb"] ?? "");
    const isAttachment = labels["resource"] === "mountpoints3podattachments";
    const isPod = labels["resource"] === "pods" && labels["subresource"] === "";
    if (isWrite && isAttachment) attachments += Number(value);
    if (isWrite && isPod) pods += Number(value);
    if (labels["verb"] === "GET" && (isPod || isAttachment)) reads += Number(value);
  }
  return { pods, attachments, reads };
}

export async function readCount(
  client: KubeClient,
  readMetrics: () => Promise<string>,
  signal: AbortSignal,
): Promise<Counted> {
  const { items } = await client.list(EVENTS, {}, signal);
  const ours = items.filter((event) => event.reportingController === DRIVER_NAME);
  return { ...countWrites(await readMetrics()), events: ours.length };
}
