import { cpus, release, totalmem } from "node:os";
import { VERSION } from "../../src/base/version.ts";
import type { Figures } from "./part.ts";

/** What the figures were measured on: without it they can't be compared with others. */
export function machineFigures(now: Date): Figures {
  return {
    cpuModel: cpus()[0]?.model.trim() ?? "unknown",
    cpuCores: cpus().length,
    memoryBytes: totalmem(),
    kernel: release(),
    nodeVersion: process.version,
    s3csiVersion: VERSION,
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

const UNITS: Readonly<Record<string, string>> = {
  Bytes: "B",
  Count: "",
  GBps: "GB/s",
  Mib: "MiB",
  Ms: "ms",
  Percent: "%",
  Seconds: "s",
};
const UNIT_AT_END = new RegExp(`(?:${Object.keys(UNITS).join("|")})$`);

/** A table for people: `nodeReadyMs: 5123.4` becomes `node ready   5123 ms`. */
export function tableOf(figures: Figures): string {
  const rows = Object.entries(figures).map(([name, value]) => {
    const [unit = ""] = UNIT_AT_END.exec(name) ?? [];
    const title = wordsOf(name.slice(0, name.length - unit.length));
    return { title, value: shortOf(value), unit: UNITS[unit] ?? "" };
  });
  const titleWidth = Math.max(0, ...rows.map(({ title }) => title.length));
  const valueWidth = Math.max(0, ...rows.map(({ value }) => value.length));
  const lines = rows.map(({ title, value, unit }) =>
    `  ${title.padEnd(titleWidth)}  ${value.padStart(valueWidth)} ${unit}`.trimEnd(),
  );
  return `${lines.join("\n")}\n`;
}

function wordsOf(camelCase: string): string {
  return camelCase.replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, " ").toLowerCase();
}

/** Three digits tell enough of a small number, and whole ones of a large. */
function shortOf(value: number | string): string {
  if (typeof value === "string" || Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
