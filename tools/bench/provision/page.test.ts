import assert from "node:assert/strict";
import { test } from "node:test";
import { aimTable, pagesOf } from "./page.ts";

const FIGURES = {
  pvcs: 200,
  bound: 200,
  buckets_extra: 0,
  buckets_left: 1,
  bind_one_ms_p50: 40,
  bind_50_s: 1.5,
  delete_50_s: 3.5,
  bound_s: 6,
  deleted_s: 5,
};

test("the page shows every figure, and which aims were not met", () => {
  const { "provision.md": page = "" } = pagesOf(FIGURES);
  for (const figure of ["bind_one_ms_p50", "bound_s", "deleted_s"]) {
    assert(page.includes(`\`${figure}\``), figure);
  }
  assert.match(page, /50 claims bound +\| 1.50 s +\| ≤ 2 s +\| yes/);
  assert.match(page, /50 claims and volumes deleted +\| 3.50 s +\| ≤ 3 s +\| \*\*no\*\*/);
  assert(page.includes(aimTable(FIGURES)));
});
