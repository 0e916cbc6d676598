/** Bars of one group share a scale; groups do not, since a second here is a minute there. */
export interface BarPlot {
  readonly title: string;
  /** Below the title: how to read it. */
  readonly note: string;
  readonly unit: string;
  /** The colours' meaning, in the order of the bars. */
  readonly series: readonly string[];
  /** A value per series; undefined where there is none. */
  readonly groups: readonly { label: string; values: readonly (number | undefined)[] }[];
}

const WIDTH = 760;
const LABEL_WIDTH = 230;
const VALUE_WIDTH = 110;
const BAR = 14;
const GAP = 18;
const HEAD = 84;
const COLOURS_MAX = 3;

/** Colours by the reader's scheme; the ground is painted, so that they hold on any page. */
const STYLE = `
    text { font: 12px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .note, .value { fill: #59636e }
    .ground { fill: #ffffff }
    .bar0 { fill: #0969da }
    .bar1 { fill: #bf8700 }
    .bar2 { fill: #8c959f }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .note, .value { fill: #9198a1 }
      .ground { fill: #0d1117 }
      .bar0 { fill: #4493f8 }
      .bar1 { fill: #d29922 }
      .bar2 { fill: #656c76 }
    }
  `;

/** An SVG with horizontal bars. The same figures give the same bytes. */
export function barPlot({ title, note, unit, series, groups }: BarPlot): string {
  if (series.length > COLOURS_MAX)
    throw new Error(`${series.length} series, ${COLOURS_MAX} colours`);
  const lines: string[] = [
    text(16, 28, title, "title"),
    text(16, 48, note, "note"),
    ...series.flatMap((name, index) => [
      rect(16 + index * 110, 60, 12, `bar${index}`, 12),
      text(34 + index * 110, 70, name),
    ]),
  ];
  let y = HEAD;
  for (const { label, values } of groups) {
    lines.push(text(16, y + (values.length * BAR) / 2 + 4, label));
    const largest = Math.max(0, ...values.map((value) => value ?? 0));
    for (const [index, value] of values.entries()) {
      const share = value === undefined || largest === 0 ? 0 : value / largest;
      const width = Math.max(1, Math.round(share * (WIDTH - LABEL_WIDTH - VALUE_WIDTH)));
      const said = value === undefined ? "none" : `${digits(value)} ${unit}`;
      if (value !== undefined) lines.push(rect(LABEL_WIDTH, y, width, `bar${index}`, BAR - 2));
      const end = LABEL_WIDTH + (value === undefined ? 0 : width);
      lines.push(text(end + 6, y + BAR - 4, said, "value"));
      y += BAR;
    }
    y += GAP;
  }
  const size = `width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img">`,
    `  <title>${escape(title)}</title>`,
    `  <style>${STYLE}</style>`,
    `  <rect class="ground" width="${WIDTH}" height="${y}" rx="6"/>`,
    ...lines.map((line) => `  ${line}`),
    "</svg>",
    "",
  ].join("\n");
}

function rect(x: number, y: number, width: number, kind: string, height: number): string {
  return `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}" rx="2"/>`;
}

function text(x: number, y: number, content: string, kind?: string): string {
  const style = kind === undefined ? "" : ` class="${kind}"`;
  return `<text${style} x="${x}" y="${y}">${escape(content)}</text>`;
}

function digits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}

function escape(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
