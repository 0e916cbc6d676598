import { ToolError } from "../../progress.ts";
import { tableOfAims } from "../aim.ts";
import type { Aim } from "../aim.ts";
import type { Part } from "../part.ts";
import { measure } from "../reconcile/measure.ts";

const AIMS: readonly Aim[] = [
  { title: "workloads attached", figure: "pods", unit: "", atLeast: 5000 },
  { title: "nodeName to attachment, p50", figure: "attach_ms_p50", unit: "ms", atMost: 40 },
  { title: "nodeName to attachment, p99", figure: "attach_ms_p99", unit: "ms", atMost: 300 },
  { title: "writes per attach", figure: "writes_per_attach", unit: "", atMost: 3 },
  { title: "writes per detach", figure: "writes_per_detach", unit: "", atMost: 3 },
  { title: "memory of the controller", figure: "rss_mb", unit: "MB", atMost: 200 },
  { title: "attachments left behind", figure: "left_attachments", unit: "", atMost: 0 },
  { title: "Mountpoint Pods not marked", figure: "left_unmarked_pods", unit: "", atMost: 0 },
  { title: "restart: caught up", figure: "restart_caught_up_s", unit: "s", atMost: 10 },
  { title: "restart: useless writes", figure: "restart_useless_writes", unit: "", atMost: 0 },
];

/** PODS=5000 and RATE=50 a second, on 100 nodes with 500 volumes. */
function setting(name: string, standard: string): number {
  const value = process.env[name] ?? standard;
  if (/^[1-9]\d{0,4}$/.test(value)) return Number(value);
  throw new ToolError(`${name}=${value}: a number from 1 to 99999 is right`);
}

export const part: Part = {
  name: "reconcile",
  description: "workloads of a big cluster on a real API server: attached, restarted, detached",
  run: (progress) =>
    measure(
      { pods: setting("PODS", "5000"), rate: setting("RATE", "50"), volumes: 500, nodes: 100 },
      progress,
    ),
  table: (figures) => tableOfAims(AIMS, figures),
};
