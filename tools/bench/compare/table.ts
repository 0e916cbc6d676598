import { markdownTable } from "../../../src/base/markdown-table.ts";
import { TITLES } from "../engine/aims.ts";
import type { Figures } from "../part.ts";
import { shortOf } from "../report.ts";
import { COMPARED } from "./figures.ts";

const HEADS: Readonly<Record<(typeof COMPARED)[number], string>> = {
  s: "Seconds",
  cpu_s: "CPU seconds",
  rss_mb: "Peak MB",
};

/** Every case: what the earlier commit took, what this tree takes, and the difference. */
export function comparisonTable(figures: Figures): string {
  const cases = Object.entries(TITLES).filter(([name]) => figures[`${name}_s`] !== undefined);
  const rows = cases.map(([name, title]) => [
    title,
    ...COMPARED.map((what) =>
      changeOf(figures[`${name}_before_${what}`], figures[`${name}_${what}`]),
    ),
  ]);
  return `${markdownTable(["Case", ...Object.values(HEADS)], rows).join("\n")}\n`;
}

function changeOf(before: number | string | undefined, now: number | string | undefined): string {
  if (typeof before !== "number" || typeof now !== "number") return "not measured";
  const percent = before === 0 ? "" : ` (${signed(Math.round((now / before - 1) * 100))} %)`;
  return `${shortOf(before)} → ${shortOf(now)}${percent}`;
}

function signed(value: number): string {
  return value > 0 ? `+${value}` : String(value);
}
