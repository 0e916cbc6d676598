import assert from "node:assert/strict";
import { test } from "node:test";
import { machineFigures, reportOf, tableOf } from "./report.ts";

test("a table has one aligned row per figure, with its unit apart", () => {
  const figures = { ready_ms_p50: 5123.4, read_gbps: 2.1234, pods: 3, server: "versitygw" };
  const lines = [
    "  ready p50       5123 ms",
    "  read            2.12 GB/s",
    "  pods               3",
    "  server     versitygw",
    "",
  ];
  assert.equal(tableOf(figures), lines.join("\n"));
});

test("a report is one flat object with the machine in it", () => {
  const machine = machineFigures(new Date(0));
  const report = reportOf("stack", machine, { ready_ms: 5 });
  assert.deepEqual(Object.keys(report), [
    "part",
    "cpu_model",
    "cpu_cores",
    "memory_mb",
    "kernel",
    "node_version",
    "s3csi_version",
    "date",
    "ready_ms",
  ]);
  for (const value of Object.values(report)) assert(["number", "string"].includes(typeof value));
  assert.equal(report["date"], "1970-01-01T00:00:00.000Z");
});

test("a figure may not hide what the report says of the machine", () => {
  assert.throws(() => reportOf("stack", machineFigures(new Date(0)), { kernel: 1 }), /kernel/);
});
