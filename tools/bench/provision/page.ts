import { tableOfAims } from "../aim.ts";
import type { Aim } from "../aim.ts";
import type { Figures } from "../part.ts";
import { pageHead, timesSection } from "../report.ts";

const AIMS: readonly Aim[] = [
  { title: "50 claims bound", figure: "bind_50_s", unit: "s", atMost: 2 },
  { title: "50 claims and volumes deleted", figure: "delete_50_s", unit: "s", atMost: 3 },
  { title: "buckets too many", figure: "buckets_extra", unit: "", atMost: 0 },
  { title: "buckets left", figure: "buckets_left", unit: "", atMost: 0 },
];

/** Figure → what it is. */
const TIMES: Readonly<Record<string, string>> = {
  bind_one_ms_p50: "one claim: created → Bound, p50",
  bind_50_s: "50 claims at once: first created → last Bound",
  delete_50_s: "50 claims at once: first deleted → last PV gone",
  pvcs: "claims at once in the largest round",
  bound: "of them Bound",
  bound_s: "largest round: first created → last Bound",
  deleted_s: "largest round: first deleted → last PV gone",
};

export function aimTable(figures: Figures): string {
  return tableOfAims(AIMS, figures);
}

/** docs/benchmarks/provision.md */
export function pagesOf(report: Figures): Record<string, string> {
  const about = [
    "# Claims to buckets, and back",
    "",
    "Made by `make bench PART=provision`; not to be edited. A real control plane (API server,",
    "etcd, controller manager) and S3 server on this machine, the controller as a process of its",
    "own with one StorageClass of a bucket for each claim. Claims come and go by the API; times",
    "are those at which a watch told of the change.",
  ];
  const lines = [
    ...pageHead(about, report, aimTable(report)),
    ...timesSection(TIMES, report),
    "## What is what",
    "",
    "- For a claim the controller writes three times to the API server (finalizer and note, PV,",
    "  finalizer off) and asks S3 three times (bucket, its tags, tags set); to delete it asks S3",
    "  once and writes twice. Binding is the controller manager's part.",
    "- **Buckets too many** are counted when all claims of the largest round are Bound, **buckets",
    "  left** when all their PVs are gone.",
    "",
  ];
  return { "provision.md": lines.join("\n") };
}
