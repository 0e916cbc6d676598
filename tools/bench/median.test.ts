import assert from "node:assert/strict";
import { test } from "node:test";
import { median, percentile } from "./median.ts";

test("the median is the middle by value, not by place", () => {
  assert.equal(median([10, 1, 2]), 2);
  assert.equal(median([4, 1, 10, 2]), 3);
  assert.equal(median([7]), 7);
  assert.throws(() => median([]), /no values/);
});

test("a percentile is one of the values, and so many are not above it", () => {
  assert.equal(percentile([10, 1, 2], 0.99), 10);
  assert.equal(percentile([4, 1, 10, 2], 0.5), 2);
  assert.equal(percentile([4, 1, 10, 2], 0), 1);
  assert.throws(() => percentile([], 0.5), /no values/);
});
