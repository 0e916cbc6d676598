import assert from "node:assert/strict";
import { test } from "node:test";
import { pagesOf } from "./page.ts";

test("the page has the aims, met or not, and what failed", () => {
  const page =
    pagesOf({
      cpu_model: "Some CPU",
      cpu_cores: 2,
      resend_pause_ms_p50: 120.4,
      resend_pause_ms_p95: 301,
      slots_write_failure: "EIO: i/o `error`",
    })["survive.md"] ?? "";
  assert.match(page, /\| RESEND: pause, p50 +\| 120 ms +\| ≤ 150 ms +\| yes +\|/);
  assert.match(page, /\| RESEND: pause, p95 +\| 301 ms +\| ≤ 300 ms +\| \*\*no\*\* +\|/);
  assert.match(page, /- `slots_write_failure`: `EIO: i\/o 'error'`/);
});
