import { ToolError } from "../../progress.ts";
import type { Part } from "../part.ts";
import { measure } from "../reconcile/measure.ts";
import { aimTable, pagesOf } from "../reconcile/page.ts";

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
  table: aimTable,
  pages: pagesOf,
};
