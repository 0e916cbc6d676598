import { tableOfAims } from "../aim.ts";
import type { Aim } from "../aim.ts";
import type { Figures } from "../part.ts";
import { pageHead, shortOf, timesSection } from "../report.ts";
import { TUNED } from "./samples.ts";

const AIMS: readonly Aim[] = [
  {
    title: "first pod of a volume, more than without a volume",
    figure: "first_over_floor_ms",
    unit: "ms",
    atMost: 650,
  },
  { title: "second pod, Ready", figure: "second_ready_ms", unit: "ms", atMost: 500 },
  { title: "20 pods, 20 volumes", figure: "burst20_pvs_s", unit: "s", atMost: 5.5 },
  { title: "20 pods, one volume", figure: "burst20_one_s", unit: "s", atMost: 4 },
  {
    title: "last pod gone → Mountpoint Pod gone",
    figure: "mp_gone_ms",
    unit: "ms",
    atMost: 1500,
  },
  { title: "publish of a served volume, p50", figure: "shared_ms_p50", unit: "ms", atMost: 50 },
  {
    title: "container started → published, p50",
    figure: "new_own_ms_p50",
    unit: "ms",
    atMost: 300,
  },
  { title: "idle Mountpoint Pod, RSS", figure: "idle_rss_mib", unit: "MiB", atMost: 90 },
  {
    title: "idle Mountpoint Pod, anonymous",
    figure: "idle_anonymous_mib",
    unit: "MiB",
    atMost: 40,
  },
];

/** Figure → what it is, in the order of a volume's life. */
const TIMES: Readonly<Record<string, string>> = {
  pod_floor_ms_p50: "the same pod without a volume: created → Ready",
  first_ready_ms: "first pod of a volume: created → Ready",
  second_ready_ms: "second pod on it: created → Ready",
  second_over_floor_ms: "the same, more than without a volume",
  new_ms_p50: "NodePublishVolume, first pod: asked → answered",
  new_attachment_ms_p50: "of that, until the attachment was there",
  new_scheduled_ms_p50: "until the Mountpoint Pod had its node",
  new_mounter_ms_p50: "until its mounter listened",
  new_engine_ms_p50: "until the engine served the bucket",
  new_bind_ms_p50: "until the pod had it",
  new_start_ms_p50: "the Mountpoint Pod's container started → its mounter listened",
  new_own_ms_p50: "the Mountpoint Pod's container started → published",
  shared_ms_p50: "NodePublishVolume, later pods, p50",
  shared_ms_p99: "NodePublishVolume, later pods, p99",
  burst20_floor_s: "20 pods without a volume: created → the last is Ready",
  burst40_floor_s: "40 pods without a volume: as many as 20 pods with 20 volumes are",
  burst20_pvs_s: "20 pods, each on a volume of its own: created → the last is Ready",
  burst20_one_s: "20 pods on one volume: created → the last is Ready",
  burst20_s: "20 pods, 20 volumes: first NodePublishVolume asked → last answered",
  teardown_ms_p50: "last pod's containers ended → the Mountpoint Pod's container ended",
  mp_gone_ms: "last pod gone → its Mountpoint Pod gone",
};

/** The aims on the default node, and then on the tuned one. */
export function aimTable(figures: Figures): string {
  const tuned = Object.fromEntries(AIMS.map((aim) => [aim.figure, figures[TUNED + aim.figure]]));
  const known = Object.entries(tuned).filter((entry) => entry[1] !== undefined);
  return [
    "On a node as Kubernetes and Debian ship it (default limits of the kubelet, runc):",
    "",
    tableOfAims(AIMS, figures),
    "On the tuned node that the tests use (decisions 18, 21 and 22: crun, a kubelet that may",
    "ask the API server 500 times a second, nodes that read by role):",
    "",
    tableOfAims(AIMS, Object.fromEntries(known) as Figures),
  ].join("\n");
}

/** docs/benchmarks/publish.md */
export function pagesOf(report: Figures): Record<string, string> {
  const said = (name: string) => shortOf(report[name] ?? "-");
  const about = [
    "# A bucket in a pod, and out of it",
    "",
    "How long a pod waits for its volume, and what an idle volume costs. Made by",
    "`make bench PART=publish`; not to be edited. A whole cluster of one node on this machine,",
    "the driver installed with its chart, images on the node. Pods are created and deleted through",
    "the API; times are those at which a watch reported the change, phases come from the node",
    `service's log and from the container runtime. Medians of ${said("rounds")} rounds on the`,
    `default node, of ${said("tuned_rounds")} rounds on the tuned one, and of`,
    `${said("shared_publishes")} publishes of volumes that were served already.`,
  ];
  const columns = { "Default node": "", "Tuned node": TUNED };
  const lines = [
    ...pageHead(about, report, aimTable(report)),
    ...timesSection(TIMES, report, columns),
    "## Background",
    "",
    "- A pod that has a volume waits for it in steps of 300 ms: the kubelet looks that often",
    "  whether the volume is there. The first pod's time has two such waits, one of its Mountpoint",
    "  Pod (for the directory in memory that holds its socket) and its own. A publish that ends",
    "  just after a look costs 300 ms more.",
    "- **20 volumes** are 40 pods: 20 workloads and 20 Mountpoint Pods. A node of this size is",
    "  busy with them all the time, so no driver with a pod per volume is faster than 40 pods",
    "  without a volume. In the order of the rounds the bursts took",
    `  ${said("burst20_pvs_each_s")} s on the default node and`,
    `  ${said("tuned_burst20_pvs_each_s")} s on the tuned one.`,
    "  No burst begins shortly before the kubelet removes the containers that ended in the last",
    "  one, as it does once a minute: that costs a second or more. A burst of some ten seconds",
    "  more is a kubelet that was refused a claim because the node authorizer had not seen the pod",
    "  yet; the tuned node has no such refusals (decision 22).",
    "- **20 pods on one volume** get it one after the other: the kubelet mounts a volume for one",
    "  pod at a time and looks every 100 ms for the next. Where some volume of the cluster has a",
    "  Secret, a started pod is published once more, and may take the turn of one that waits; here",
    "  none has (decision 19).",
    "- **Limits of the kubelet**: by default it may ask the API server 100 times at once and 50",
    "  times a second (`kubeAPIBurst`, `kubeAPIQPS`). It has some 380 questions for 20 volumes, so",
    "  with those limits the last of them is asked after 5.6 s on any machine (decision 21).",
    "- The kubelet sees that a Mountpoint Pod has ended when it next asks the container runtime,",
    "  once a second.",
    "- **Memory** of a Mountpoint Pod with a volume that nobody uses: all its processes together.",
    "  RSS counts twice what two of them share (the program itself, the request slots). As PSS,",
    `  where every page counts once, it is ${said("idle_pss_mib")} MiB.`,
    "",
  ];
  return { "publish.md": lines.join("\n") };
}
