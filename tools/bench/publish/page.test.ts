import assert from "node:assert/strict";
import { test } from "node:test";
import { pagesOf } from "./page.ts";

test("the page has the aims, met or not, and every time with its unit", () => {
  const page =
    pagesOf({
      cpu_model: "Some CPU",
      cpu_cores: 2,
      rounds: 8,
      first_over_floor_ms: 560.5,
      mp_gone_ms: 1501,
      burst20_s: 2.345,
    })["publish.md"] ?? "";
  assert.match(page, /more than without a volume +\| 561 ms +\| ≤ 650 ms +\| yes +\|/);
  assert.match(page, /Mountpoint Pod gone +\| 1501 ms +\| ≤ 1500 ms +\| \*\*no\*\* +\|/);
  assert.match(page, /\| 2\.35 s +\| `burst20_s` +\|/);
  assert.match(page, /\| - ms +\| `shared_ms_p99` +\|/);
});
