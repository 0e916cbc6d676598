import { cpus, release, totalmem } from "node:os";
import { markdownTable } from "../../src/base/markdown-table.ts";
import { VERSION } from "../../src/base/version.ts";
import type { Figures } from "./part.ts";

/** What the figures were measured on: without it they can't be compared with others. */
export function machineFigures(now: Date): Figures {
  return {
    cpu_model: cpus()[0]?.model.trim() ?? "unknown",
    cpu_cores: cpus().length,
    memory_mb: Math.round(totalmem() / 1e6),
    kernel: release(),
    node_version: process.version,
    s3csi_version: VERSION,
    date: now.toISOString(),
  };
}

/** What build/bench/PART.json holds: one flat object. */
export function reportOf(part: string, machine: Figures, figures: Figures): Figures {
  const head: Figures = { part, ...machine };
  const clash = Object.keys(figures).find((name) => Object.hasOwn(head, name));
  if (clash !== undefined) throw new Error(`the figure ${clash} of ${part} hides the report's own`);
  return { ...head, ...figures };
}

const UNITS: Readonly<Record<string, string>> = { ms: "ms", s: "s", mb: "MB", gbps: "GB/s" };

/** The word of a figure's name that is its unit. */
function unitWordOf(name: string): string | undefined {
  return name.split("_").findLast((word) => Object.hasOwn(UNITS, word));
}

/** A table for people: `publish_ms_p50: 5123.4` becomes `publish p50   5123 ms`. */
export function tableOf(figures: Figures): string {
  const rows = Object.entries(figures).map(([name, value]) => {
    const unit = unitWordOf(name);
    const words = name.split("_").filter((word) => word !== unit);
    return { title: words.join(" "), value: shortOf(value), unit: UNITS[unit ?? ""] ?? "" };
  });
  const titleWidth = Math.max(0, ...rows.map(({ title }) => title.length));
  const valueWidth = Math.max(0, ...rows.map(({ value }) => value.length));
  const lines = rows.map(({ title, value, unit }) =>
    `  ${title.padEnd(titleWidth)}  ${value.padStart(valueWidth)} ${unit}`.trimEnd(),
  );
  return `${lines.join("\n")}\n`;
}

/** Three digits tell enough of a small number, and whole ones of a large. */
export function shortOf(value: number | string): string {
  if (typeof value === "string" || Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** The same for the head of a page. */
export function machineRows(report: Figures): string[][] {
  const said = (name: string) => shortOf(report[name] ?? "-");
  return [
    ["Processor", `${said("cpu_model")}, ${said("cpu_cores")} cores`],
    ["Memory", `${said("memory_mb")} MB`],
    ["Kernel", said("kernel")],
    ["S3 server", said("s3_server_version")],
    ["s3csi", `${said("s3csi_version")} on Node ${said("node_version")}`],
    ["Date", said("date").slice(0, 10)],
  ];
}

/** How every page begins: what it is about, the machine, and whether the aims are met. */
export function pageHead(about: readonly string[], report: Figures, aims: string): string[] {
  const machine = markdownTable(["Machine", ""], machineRows(report));
  return [...about, "", ...machine, "", "## Aims", "", aims];
}

/** Column title → what the names of its figures begin with. */
const ONE_COLUMN: Readonly<Record<string, string>> = { Time: "" };

/** Figures of a page, each with its title; the unit is in the figure's name. */
export function timesSection(
  titles: Readonly<Record<string, string>>,
  report: Figures,
  columns = ONE_COLUMN,
): string[] {
  const rows = Object.entries(titles).map(([figure, title]) => {
    const unit = UNITS[unitWordOf(figure) ?? ""] ?? "";
    const times = Object.values(columns).map((prefix) =>
      `${shortOf(report[`${prefix}${figure}`] ?? "-")} ${unit}`.trimEnd(),
    );
    return [title, ...times, `\`${figure}\``];
  });
  const head = ["From → to", ...Object.keys(columns), "Figure"];
  return ["## Times", "", ...markdownTable(head, rows), ""];
}
