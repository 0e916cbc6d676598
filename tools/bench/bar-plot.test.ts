import assert from "node:assert/strict";
import { test } from "node:test";
import { barPlot } from "./bar-plot.ts";

const PLOT = {
  title: "Seconds & more",
  note: "shorter is better",
  unit: "s",
  series: ["ours", "theirs"],
  groups: [
    { label: "read <1>", values: [1, 4] },
    { label: "write", values: [100, undefined] },
  ],
};

function bars(svg: string): [kind: string, width: number][] {
  return [...svg.matchAll(/<rect class="(bar\d)" x="230"[^>]*? width="(\d+)"/g)].map(
    ([, kind = "", width]) => [kind, Number(width)],
  );
}

test("each group has its own scale, and what is missing has no bar", () => {
  const svg = barPlot(PLOT);
  assert.deepEqual(bars(svg), [
    ["bar0", 105],
    ["bar1", 420],
    ["bar0", 420],
  ]);
  for (const said of ["1.00 s", "4.00 s", "100 s", "none"]) assert(svg.includes(`>${said}<`), said);
});

test("words are escaped, colours follow the reader's scheme, and the bytes are the same each time", () => {
  const svg = barPlot(PLOT);
  assert(svg.includes("Seconds &amp; more") && svg.includes("read &lt;1&gt;"));
  assert(svg.includes("prefers-color-scheme: dark"));
  assert.equal(svg, barPlot(PLOT));
});

test("groups of zeros and of nothing can be drawn; a fourth colour does not exist", () => {
  assert.deepEqual(bars(barPlot({ ...PLOT, groups: [{ label: "none", values: [0, 0] }] })), [
    ["bar0", 1],
    ["bar1", 1],
  ]);
  assert.throws(() => barPlot({ ...PLOT, series: ["a", "b", "c", "d"] }), /4 series/);
});
