import assert from "node:assert/strict";
import { test } from "node:test";
import { aimTable, pagesOf } from "./page.ts";

const FIGURES = {
  pods: 5000,
  volumes: 500,
  nodes: 100,
  rate: 50,
  late_pods: 50,
  attach_ms_p50: 9.5,
  attach_ms_p99: 310,
  first_ms_p50: 20,
  first_ms_p99: 180,
  api_server_cpu_s: 95,
};

test("the page shows every figure, and which aims were not met", () => {
  const { "reconcile.md": page = "" } = pagesOf(FIGURES);
  for (const figure of ["first_ms_p50", "join_ms_p99", "api_server_cpu_s", "bench_cpu_s"]) {
    assert(page.includes(`\`${figure}\``), figure);
  }
  assert.match(page, /5000 pods on 100 nodes and\n500 volumes come at 50 a second/);
  assert.match(page, /nodeName to attachment, p50 +\| 9.50 ms +\| ≤ 40 ms +\| yes/);
  assert.match(page, /nodeName to attachment, p99 +\| 310 ms +\| ≤ 300 ms +\| \*\*no\*\*/);
  assert(page.includes(aimTable(FIGURES)));
});
