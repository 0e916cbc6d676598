import assert from "node:assert/strict";
import { test } from "node:test";
import { terminalSvg } from "./terminal-svg.ts";

test("each line moves the picture up by a row when it came", () => {
  const svg = terminalSvg("a story", [
    { atMs: 0, text: "1. First" },
    { atMs: 2_000, text: "   pod $ cat <file> & more" },
  ]);
  assert.match(svg, /<title>a story<\/title>/);
  assert.match(
    svg,
    /0\.00%\{transform:translateY\(522px\)\}25\.00%\{transform:translateY\(504px\)\}/,
  );
  assert.match(svg, /animation:play 8\.0s step-end infinite/);
  assert.match(svg, /class="step">1\. First</);
  assert.match(svg, /class="told"> {3}pod \$ cat &lt;file&gt; &amp; more</);
});

test("a line that is wider than the terminal is cut off", () => {
  const svg = terminalSvg("wide", [{ atMs: 0, text: "x".repeat(500) }]);
  assert.match(svg, />x{110}</);
});
