import assert from "node:assert/strict";
import { test } from "node:test";
import { pagesOf } from "./page.ts";

test("the page has the aims on both nodes, the default one first, and every time with its unit", () => {
  const page =
    pagesOf({
      cpu_model: "Some CPU",
      cpu_cores: 2,
      rounds: 8,
      first_over_floor_ms: 560.5,
      mp_gone_ms: 1501,
      burst20_s: 2.345,
      tuned_burst20_s: 1.5,
      tuned_mp_gone_ms: 1040,
    })["publish.md"] ?? "";
  assert.match(page, /more than without a volume +\| 561 ms +\| ≤ 650 ms +\| yes +\|/);
  assert.match(page, /Mountpoint Pod gone +\| 1501 ms +\| ≤ 1500 ms +\| \*\*no\*\* +\|/);
  const [, tunedAims = ""] = page.split("On the tuned node");
  assert.match(tunedAims, /Mountpoint Pod gone +\| 1040 ms +\| ≤ 1500 ms +\| yes +\|/);
  assert.match(page, /\| 2\.35 s +\| 1\.50 s +\| `burst20_s` +\|/);
  assert.match(page, /\| - ms +\| - ms +\| `shared_ms_p99` +\|/);
});
