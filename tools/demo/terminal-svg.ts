/** A line as a terminal showed it, and when. */
export interface TerminalLine {
  readonly atMs: number;
  readonly text: string;
}

const ROWS = 30;
const COLUMNS = 110;
const ROW_PX = 18;
const CELL_PX = 8;
const MARGIN_PX = 16;
/** The end stays for a while before the picture starts anew. */
const END_MS = 6_000;

/**
 * A picture that plays what a terminal showed, in the pace in which it came. All lines hang below
 * each other in one group, which moves up by a row with each line: no script is needed, so the
 * picture works wherever an image does. Where motion is unwanted the end is shown.
 */
export function terminalSvg(title: string, lines: readonly TerminalLine[]): string {
  const totalMs = (lines.at(-1)?.atMs ?? 0) + END_MS;
  const [width, height] = [COLUMNS * CELL_PX + 2 * MARGIN_PX, ROWS * ROW_PX + 2 * MARGIN_PX];
  const offsetOf = (count: number) => (ROWS - count) * ROW_PX;
  const steps = lines.map(({ atMs }, index) => {
    const percent = ((atMs / totalMs) * 100).toFixed(2);
    return `${percent}%{transform:translateY(${offsetOf(index + 1)}px)}`;
  });
  const rows = lines.map(({ text }, index) => {
    const place = `x="${MARGIN_PX}" y="${MARGIN_PX + (index + 1) * ROW_PX - 5}"`;
    return `<text ${place}${styleOf(text)}>${escaped(text.slice(0, COLUMNS))}</text>`;
  });
  const seconds = (totalMs / 1000).toFixed(1);
  const attributes = `viewBox="0 0 ${width} ${height}" role="img" xml:space="preserve"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${attributes}>
<title>${escaped(title)}</title>
<style>
text{font:13px ui-monospace,"DejaVu Sans Mono",Menlo,monospace;fill:#e2e8f0;white-space:pre}
.step{fill:#7dd3fc;font-weight:600}
.told{fill:#86efac}
g{transform:translateY(${offsetOf(lines.length)}px);animation:play ${seconds}s step-end infinite}
@keyframes play{0%{transform:translateY(${offsetOf(0)}px)}${steps.join("")}}
@media (prefers-reduced-motion:reduce){g{animation:none}}
</style>
<clipPath id="screen"><path d="M0 ${MARGIN_PX}h${width}v${ROWS * ROW_PX}H0z"/></clipPath>
<rect width="${width}" height="${height}" rx="8" fill="#0f172a"/>
<svg width="${width}" height="${height}" clip-path="url(#screen)"><g>
${rows.join("\n")}
</g></svg>
</svg>
`;
}

function styleOf(text: string): string {
  if (/^\d+\. /.test(text)) return ' class="step"';
  return /^\s+(\S+ )?\$ /.test(text) ? ' class="told"' : "";
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
