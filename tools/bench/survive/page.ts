import { tableOfAims } from "../aim.ts";
import type { Aim } from "../aim.ts";
import type { Figures } from "../part.ts";
import { pageHead, shortOf } from "../report.ts";

const MODES = { resend: "RESEND", slots: "slots alone" } as const;

const AIMS: readonly Aim[] = [
  ...Object.entries(MODES).flatMap(([mode, title]): Aim[] => [
    {
      title: `${title}: kills while reading`,
      figure: `${mode}_read_kills`,
      unit: "",
      atLeast: 200,
    },
    { title: `${title}: read right`, figure: `${mode}_read_ok`, unit: "", atLeast: 1 },
    { title: `${title}: pause, p50`, figure: `${mode}_pause_ms_p50`, unit: "ms", atMost: 150 },
    { title: `${title}: pause, p95`, figure: `${mode}_pause_ms_p95`, unit: "ms", atMost: 300 },
    {
      title: `${title}: kills while writing`,
      figure: `${mode}_write_kills`,
      unit: "",
      atLeast: 100,
    },
    { title: `${title}: written right`, figure: `${mode}_write_ok`, unit: "", atLeast: 1 },
    {
      title: `${title}: finished parts sent again`,
      figure: `${mode}_finished_parts_sent_again`,
      unit: "",
      atMost: 0,
    },
    {
      title: `${title}: uploads left behind`,
      figure: `${mode}_dangling_uploads`,
      unit: "",
      atMost: 0,
    },
  ]),
  { title: "CPU of a read, with journal", figure: "cost_read_cpu_ratio", unit: "×", atMost: 1.1 },
  { title: "CPU of a write", figure: "cost_write_cpu_ratio", unit: "×", atMost: 1.1 },
  { title: "CPU of metadata", figure: "cost_metadata_cpu_ratio", unit: "×", atMost: 1.1 },
  { title: "supervisor, idle", figure: "supervisor_pss_mb", unit: "MB", atMost: 45 },
  { title: "engine, idle", figure: "engine_pss_mb", unit: "MB", atMost: 85 },
];

export function aimTable(figures: Figures): string {
  return tableOfAims(AIMS, figures);
}

/** docs/benchmarks/survive.md */
export function pagesOf(report: Figures): Record<string, string> {
  const said = (name: string) => shortOf(report[name] ?? "-");
  const failures = Object.entries(report).filter(([name]) => name.endsWith("_failure"));
  const about = [
    "# The engine killed again and again",
    "",
    "Made by `make bench PART=survive`; not to be edited. A program reads an object of",
    `${said("read_mib")} MiB and compares every byte, another writes one of`,
    `${said("write_mib")} MiB,`,
    "1 MiB by each call, while the engine is ended by SIGKILL at random moments of their work.",
    "Once with requests that the kernel sends again (RESEND), once as on kernels that can't: then",
    "what was in flight is known by the request slots alone.",
  ];
  const lines = [
    ...pageHead(about, report, aimTable(report)),
    ...(failures.length === 0 ? [] : ["## Failures", ""]),
    ...failures.map(([name, value]) => `- \`${name}\`: \`${String(value).replaceAll("`", "'")}\``),
    "## What is what",
    "",
    "- A **pause** belongs to a kill: the longest single read(2) of the program that ended after",
    "  the kill and began before the next one, in full. The longest of all took",
    `  ${said("resend_pause_ms_max")} ms with RESEND and ${said("slots_pause_ms_max")} ms without.`,
    "- A part is **finished** when the journal says that S3 has it. The journal is read at each",
    "  kill, between two engines; every later request for such a part, in the log of a proxy in",
    `  front of S3, counts as sent again. Known were ${said("resend_finished_parts_known")} and`,
    `  ${said("slots_finished_parts_known")} parts. A part that it does not call sent yet is`,
    `  sent again, as it must be: S3 took ${said("resend_parts_taken_twice")} and`,
    `  ${said("slots_parts_taken_twice")} parts twice.`,
    "- **CPU**: user and system time of supervisor and engine, with the journal divided by without",
    `  (\`--no-journal\`), the median of ${said("cost_pairs")} pairs in turns. A read costs`,
    `  ${said("cost_read_cpu_s_per_gib")} s per GiB (${said("cost_read_cpu_s_per_gib_without")}`,
    `  without), a write ${said("cost_write_cpu_s_per_gib")} s`,
    `  (${said("cost_write_cpu_s_per_gib_without")}), a metadata operation`,
    `  ${said("cost_metadata_cpu_operation_us")} µs`,
    `  (${said("cost_metadata_cpu_operation_us_without")}).`,
    "- **Memory** is PSS: pages in common with other processes count in part. Every other Node",
    "  on the machine makes it smaller: it shares the program's own pages.",
    "",
  ];
  return { "survive.md": lines.join("\n") };
}
