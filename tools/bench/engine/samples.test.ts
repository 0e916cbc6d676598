import assert from "node:assert/strict";
import { test } from "node:test";
import { Samples } from "./samples.ts";

test("figures are medians by contender, with rates and ratios", () => {
  const samples = new Samples();
  for (const s of [2, 1, 9]) samples.add("read1", "s3csi", { s, cpu_s: s / 2 });
  for (const s of [4, 5, 3]) samples.add("read1", "s3fs", { s, cpu_s: s });
  samples.add("read1", "rclone", { s: 10, cpu_s: 3 });
  assert.deepEqual(samples.figuresOf("read1", { bytes: 4e9 }), {
    read1_s: 2,
    read1_cpu_s: 1,
    read1_gbps: 2,
    read1_s3fs_s: 4,
    read1_s3fs_cpu_s: 4,
    read1_s3fs_gbps: 1,
    read1_rclone_s: 10,
    read1_rclone_cpu_s: 3,
    read1_rclone_gbps: 0.4,
    read1_vs_s3fs: 2,
    read1_vs_rclone: 5,
  });
});

test("operations give operations per second", () => {
  const samples = new Samples();
  samples.add("ls", "s3csi", { s: 0.5 });
  assert.deepEqual(samples.figuresOf("ls", { operations: 100 }), { ls_s: 0.5, ls_ops_per_s: 200 });
});

test("what failed even once is told, in one line, and has no figures and no ratio", () => {
  const samples = new Samples();
  samples.add("small", "s3csi", { s: 1 });
  samples.add("small", "s3fs", { s: 1 });
  samples.fail("small", "s3fs", new Error("f1 is\n  wrong"));
  samples.fail("small", "s3fs", new Error("later"));
  assert.deepEqual(samples.figuresOf("small"), { small_s: 1, small_s3fs_failed: "f1 is wrong" });
});

test("our own failure leaves the peers' figures", () => {
  const samples = new Samples();
  samples.fail("find", "s3csi", "no");
  samples.add("find", "rclone", { s: 3 });
  assert.deepEqual(samples.figuresOf("find"), { find_failed: "no", find_rclone_s: 3 });
});
