import { markdownTable } from "../../src/base/markdown-table.ts";
import type { Figures } from "./part.ts";
import { shortOf } from "./report.ts";

/** A figure, and what it should be. */
export interface Aim {
  readonly title: string;
  readonly figure: string;
  readonly unit: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** What was wished for beside what was measured. */
export function tableOfAims(aims: readonly Aim[], figures: Figures): string {
  const rows = aims.map((aim) => {
    const value = figures[aim.figure];
    const bound = aim.atLeast === undefined ? `≤ ${aim.atMost}` : `≥ ${aim.atLeast}`;
    const shown = value === undefined ? "not measured" : `${shortOf(value)} ${aim.unit}`;
    return [aim.title, shown, `${bound} ${aim.unit}`, met(aim, value)];
  });
  const lines = markdownTable(["Case", "Measured", "Aim", "Met"], rows);
  return `${lines.join("\n")}\n`;
}

function met({ atLeast = 0, atMost = Infinity }: Aim, value: number | string | undefined): string {
  return typeof value === "number" && value >= atLeast && value <= atMost ? "yes" : "**no**";
}
