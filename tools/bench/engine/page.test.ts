import assert from "node:assert/strict";
import { test } from "node:test";
import { aimTable } from "./aims.ts";
import { pagesOf } from "./page.ts";

const REPORT = {
  cpu_model: "Some CPU",
  cpu_cores: 2,
  date: "2026-01-02T03:04:05.000Z",
  rounds: 5,
  s3fs_version: "1.90",
  read1_s: 1,
  read1_gbps: 1.073741824,
  read1_cpu_s: 0.9,
  read1_s3fs_s: 2.5,
  read1_vs_s3fs: 2.5,
  read1_rclone_failed: "rclone *does* not `mount`",
};

const rows = (page: string, start: string) =>
  page.split("\n").filter((line) => line.startsWith(`| ${start}`));

test("aims stand beside what was measured, and say whether they are met", () => {
  const [first, second, third] = rows(aimTable(REPORT), "sequential read");
  assert.match(first ?? "", /\| 2\.50 × s3fs +\| ≥ 2 × s3fs +\| yes +\|$/);
  assert.match(second ?? "", /\| 0\.900 CPU s +\| ≤ 0\.8 CPU s +\| \*\*no\*\* +\|$/);
  assert.match(third ?? "", /\| not measured +\| ≤ 200 MB +\| \*\*no\*\* +\|$/);
});

test("the page has the machine, a row per case and contender, and what failed", () => {
  const page = pagesOf(REPORT)["engine.md"] ?? "";
  assert.match(page, /^# The engine beside others\n/);
  assert.match(page, /\| Processor \| Some CPU, 2 cores +\|/);
  assert.match(page, /\| Date +\| 2026-01-02 +\|/);
  assert.match(page, /\| s3csi +\| 1 +\| 1\.07 GB\/s \|/);
  assert.match(page, /\| s3fs +\| 2\.50 .* 2\.50 × as fast +\|/);
  assert.match(page, /\| rclone \| failed +\|/);
  assert(page.endsWith("- `read1_rclone_failed`: `rclone *does* not 'mount'`\n"));
  assert(!page.includes("Small and large"), "the sizes were not measured");
});

test("sizes are told when they were measured", () => {
  const page = pagesOf({ ...REPORT, read_64mib_s_per_gib: 0.8, ls_100000_us_per_entry: 40 });
  assert.match(page["engine.md"] ?? "", /\| read of 64 MiB +\| 0\.800 s per GiB +\|/);
  assert.match(page["engine.md"] ?? "", /\| `ls -l` of 100,000 +\| 40 µs per entry +\|/);
});

test("each plot that the page shows is a page too", () => {
  const pages = pagesOf(REPORT);
  const shown = [...(pages["engine.md"] ?? "").matchAll(/\]\(([^)]+)\)/g)].map(([, file]) => file);
  assert.deepEqual(
    shown,
    Object.keys(pages).filter((file) => file !== "engine.md"),
  );
  for (const file of shown) assert.match(pages[file ?? ""] ?? "", /^<svg /);
});
