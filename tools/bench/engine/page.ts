import { markdownTable } from "../../../src/base/markdown-table.ts";
import { barPlot } from "../bar-plot.ts";
import type { Figures } from "../part.ts";
import { machineRows, shortOf } from "../report.ts";
import { aimTable, TITLES } from "./aims.ts";
import { figureOf, OURS, PEERS } from "./figure-names.ts";

const ALL = [OURS, ...PEERS];
const CASE_NAMES = Object.keys(TITLES) as (keyof typeof TITLES)[];

/** Plot of a figure of every case: file → words and unit. */
const PLOTS = {
  "engine-seconds.svg": { what: "s", title: "Seconds", unit: "s" },
  "engine-cpu.svg": { what: "cpu_s", title: "CPU seconds of the engine", unit: "s" },
  "engine-memory.svg": { what: "rss_mb", title: "Peak memory of the engine", unit: "MB" },
} as const;

/** docs/benchmarks/engine.md and its plots. */
export function pagesOf(report: Figures): Record<string, string> {
  const pages: Record<string, string> = { "engine.md": engineMd(report) };
  for (const [file, { what, title, unit }] of Object.entries(PLOTS)) {
    const groups = CASE_NAMES.map((name) => ({
      label: TITLES[name].replaceAll("`", ""),
      values: ALL.map((by) => numberOf(report[figureOf(name, by, what)])),
    }));
    const note = "Shorter is better. Each case has a scale of its own.";
    pages[file] = barPlot({ title, note, unit, series: ALL, groups });
  }
  return pages;
}

function engineMd(report: Figures): string {
  const said = (name: string) => shortOf(report[name] ?? "-");
  const sections = [
    "# The engine beside others",
    "",
    "Made by `make bench PART=engine`; not to be edited. The same bucket of the same S3 server",
    "is mounted by s3csi, by s3fs and by rclone in turns, each with its default options. Each case",
    "has a fresh mount: neither kernel nor program have cached anything; the server is warm.",
    "Bytes and names that are read are compared; what is written is compared in the bucket.",
    `Rounds: ${said("rounds")}; figures are medians, for \`find\` and for four files at once of`,
    "three goes in each round.",
    "",
    ...markdownTable(["Machine", ""], [...machineRows(report), ...peerRows(said)]),
    "",
    "## Aims",
    "",
    aimTable(report),
    "`× s3fs` and `× rclone` say how many times as fast as they we are, `× the bare LIST calls`",
    "how many times their time we take: the same lists by plain HTTP, without a filesystem.",
    "",
    "## Cases",
    "",
    ...Object.entries(PLOTS).map(([file, { title }]) => `![${title}](${file})`),
    "",
    ...markdownTable(
      CASE_HEAD,
      CASE_NAMES.flatMap((name) => caseRows(report, name)),
    ),
    "",
    "CPU and memory are those of the mounting program and its children: the sum of their CPU",
    "seconds, the peak of the largest one (for the last case: what it holds when idle). Random",
    "reads of s3fs are no match: it fetches the whole file to a local disk and reads it there.",
    "They are served by nginx, from the S3 server's own file: that server takes a millisecond of",
    "CPU for each ranged GET, and would be all that is measured.",
    "",
    "## Ceilings",
    "",
    "The same work by plain HTTP, without a filesystem.",
    "",
    ...markdownTable(["Work", "Seconds"], ceilingRows(said)),
    ...scaleSection(report),
    ...failureSection(report),
  ];
  return `${sections.join("\n").trimEnd()}\n`;
}

function peerRows(said: (name: string) => string): string[][] {
  return [
    ["s3fs", `${said("s3fs_version")} of Debian`],
    ["rclone", `${said("rclone_version")}, \`rclone mount\``],
  ];
}

const CASE_HEAD = ["Case", "By", "s", "Rate", "CPU s", "Server CPU s", "MB", "s3csi is"];

function caseRows(report: Figures, name: keyof typeof TITLES): string[][] {
  return ALL.map((by) => {
    const said = (what: string) => shortOf(report[figureOf(name, by, what)] ?? "-");
    const failed = report[figureOf(name, by, "failed")] !== undefined;
    const ratio = report[`${name}_vs_${by}`];
    return [
      by === OURS ? TITLES[name] : "",
      by,
      failed ? "failed" : said("s"),
      rateOf(report, name, by),
      said("cpu_s"),
      said("server_cpu_s"),
      said("rss_mb"),
      ratio === undefined ? "" : `${shortOf(ratio)} × as fast`,
    ];
  });
}

function rateOf(report: Figures, name: string, by: string): string {
  const gbps = report[figureOf(name, by, "gbps")];
  const operations = report[figureOf(name, by, "ops_per_s")];
  if (gbps !== undefined) return `${shortOf(gbps)} GB/s`;
  return operations === undefined ? "" : `${shortOf(operations)} /s`;
}

function ceilingRows(said: (name: string) => string): string[][] {
  return [
    ["read of 1 GiB in parallel", said("read1_http_s")],
    ["write of 1 GiB in parallel", said("write_http_s")],
    ["500 random reads of 4 KiB", said("rand1_http_s")],
    ["LIST calls of `ls`", said("ls_bare_s")],
    ["LIST calls of `find`", said("find_bare_s")],
  ];
}

/** Does the cost grow as the work does? */
function scaleSection(report: Figures): string[] {
  if (report["read_64mib_s_per_gib"] === undefined) return [];
  const said = (name: string) => shortOf(report[name] ?? "-");
  const rows = [
    ["read of 64 MiB", `${said("read_64mib_s_per_gib")} s per GiB`, said("read_64mib_rss_mb")],
    ["read of 8 GiB", `${said("read_8gib_s_per_gib")} s per GiB`, said("read_8gib_rss_mb")],
    ...["1000", "100000"].flatMap((count) => [
      [
        `\`ls -l\` of ${Number(count).toLocaleString("en")}`,
        `${said(`ls_${count}_us_per_entry`)} µs per entry`,
        said(`ls_${count}_rss_mb`),
      ],
      ["the same by bare LIST calls", `${said(`ls_${count}_bare_us_per_entry`)} µs per entry`, ""],
    ]),
  ];
  const table = markdownTable(["Work", "Cost", "Peak MB"], rows);
  return ["", "## Small and large", "", "s3csi alone.", "", ...table];
}

function failureSection(report: Figures): string[] {
  const failures = Object.entries(report).filter(([name]) => name.endsWith("_failed"));
  if (failures.length === 0) return [];
  // In code, the formatter leaves it as it is.
  const lines = failures.map(([name, said]) => {
    return `- \`${name}\`: \`${String(said).replaceAll("`", "'")}\``;
  });
  return ["", "## Failures", "", ...lines];
}

function numberOf(value: number | string | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}
