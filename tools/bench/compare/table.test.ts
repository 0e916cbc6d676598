import assert from "node:assert/strict";
import { test } from "node:test";
import { comparisonTable } from "./table.ts";

test("the table has each measured case with both figures and the difference", () => {
  const table = comparisonTable({
    read1_s: 0.5,
    read1_before_s: 0.4,
    read1_cpu_s: 0.3,
    read1_before_cpu_s: 0.3,
    read1_rss_mb: 90,
    read1_before_rss_mb: 100,
    small_s: 1,
  });
  assert.match(table, /sequential read of 1 GiB +\| 0\.400 → 0\.500 \(\+25 %\) +\| /);
  assert.match(table, /0\.300 → 0\.300 \(0 %\) +\| 100 → 90 \(-10 %\) +\|/);
  assert.match(table, /500 files of 4 KiB: create, read +\| not measured +\|/);
  assert.doesNotMatch(table, /random/);
});
