import assert from "node:assert/strict";
import { test } from "node:test";
import { median } from "./median.ts";

test("the median is the middle by value, not by place", () => {
  assert.equal(median([10, 1, 2]), 2);
  assert.equal(median([4, 1, 10, 2]), 3);
  assert.equal(median([7]), 7);
  assert.throws(() => median([]), /no values/);
});
