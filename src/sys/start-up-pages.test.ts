import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

/** In a process of its own: this one's memory is not only its own business. */
const PROGRAM = `
  import { readFileSync } from "node:fs";
  import { hash } from "node:crypto";
  import { dropStartUpPages } from "${join(import.meta.dirname, "start-up-pages.ts")}";
  const mapped = () => Number(/^RssFile:\\s+(\\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))[1]);
  const before = mapped();
  dropStartUpPages();
  const after = mapped();
  const sum = hash("sha256", "still at work");
  console.log(JSON.stringify({ before, after, sum, date: new Date(0).toLocaleDateString("de") }));
`;

test("what only the start needed is unmapped, and the program goes on", () => {
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", PROGRAM], {
    encoding: "utf8",
  });
  const { before, after, sum, date } = JSON.parse(printed) as Record<string, number | string>;
  assert.equal(sum, "9f5404adc26380ca408235be8d60422c776ac75d51429b8153fc6baa237f9149");
  assert.equal(date, "1.1.1970");
  assert(Number(after) < Number(before) / 2, `${before} kB became ${after} kB`);
});
