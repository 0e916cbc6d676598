import { tableOfAims } from "../aim.ts";
import type { Aim } from "../aim.ts";
import type { Figures } from "../part.ts";
import { pageHead, shortOf, timesSection } from "../report.ts";

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

/** Figure → what it is. */
const TIMES: Readonly<Record<string, string>> = {
  first_ms_p50: "pod bound → attachment seen, with a new Mountpoint Pod, p50",
  first_ms_p99: "the same, p99",
  join_ms_p50: "pod bound → attachment seen, with one that is there, p50",
  join_ms_p99: "the same, p99",
  reads_per_attach: "reads of single objects, per attach",
  api_server_cpu_s: "processor time while all come: API server",
  controller_cpu_s: "the controller",
  bench_cpu_s: "whoever makes the pods, and plays scheduler and kubelets",
};

export function aimTable(figures: Figures): string {
  return tableOfAims(AIMS, figures);
}

/** docs/benchmarks/reconcile.md */
export function pagesOf(report: Figures): Record<string, string> {
  const said = (name: string) => shortOf(report[name] ?? "-");
  const about = [
    "# Attachments in a big cluster",
    "",
    "Made by `make bench PART=reconcile`; not to be edited. A real control plane (API server,",
    "etcd, controller manager) on this machine, the controller as it is shipped, as a process of",
    "its own with the account that it has in its pod.",
    `${said("pods")} pods on ${said("nodes")} nodes and`,
    `${said("volumes")} volumes come at ${said("rate")} a second, whatever the controller does;`,
    "two share each Mountpoint Pod. Nobody runs them: the bench binds Mountpoint Pods to their",
    "nodes and says that they run.",
  ];
  const lines = [
    ...pageHead(about, report, aimTable(report)),
    ...timesSection(TIMES, report),
    "## What is what",
    "",
    "- An attach ends when a watch of the bench tells of the attachment that lists the pod. It is",
    "  one write where a Mountpoint Pod is there, and two in a row where one is made.",
    "- The API server is what is busy: it shares the machine's processors with everybody else",
    "  here. With a new Mountpoint Pod for every pod it takes six writes for each (pod, Mountpoint",
    "  Pod, attachment, binding, its phase, the attachment's status), all of one queue.",
    "- So the controller does not read what it has written itself, and writes an attachment's",
    "  status when there is nothing else to do, or one at a time when it is 10 s late.",
    "- etcd does not wait for the disk: the data is thrown away at the end.",
    `- **Restart**: ${said("late_pods")} pods come while no controller is there. The time counts`,
    "  from the start of its process until the last of them is attached; useless are all writes",
    "  beyond those.",
    "",
  ];
  return { "reconcile.md": lines.join("\n") };
}
