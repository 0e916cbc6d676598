import assert from "node:assert/strict";
import { test } from "node:test";
import { pausesOf, randomPlaces } from "./under-kills.ts";

test("a pause is the longest call that ended after its kill and began before the next", () => {
  const slow = [
    [90, 99], // over before the first kill
    [95, 260], // held up by the first
    [270, 300], // later, and shorter
    [395, 500], // began before the second
    [510, 640], // held up by it too, and longer
  ] as const;
  assert.deepEqual(pausesOf([100, 450, 700], { slow }), [165, 130, 0]);
});

test("each kill has a place of its own, however chance has it", () => {
  for (const chance of [0, 0.5, 0.999_999]) {
    const places = randomPlaces(2032, 100, () => chance);
    assert.equal(new Set(places).size, 100);
    assert(Math.min(...places) > 0 && Math.max(...places) <= 2032);
  }
});
