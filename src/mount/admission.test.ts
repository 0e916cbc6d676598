import assert from "node:assert/strict";
import { test } from "node:test";
import { admission } from "./admission.ts";

// prettier-ignore
const cases: [lets: "owner" | "root" | "all", owner: boolean, root: boolean, other: boolean][] = [
  ["owner", true, false, false],
  ["root",  true, true,  false],
  ["all",   true, true,  true],
];

for (const [lets, ...expected] of cases) {
  test(`who is let in: ${lets}`, () => {
    assert.deepEqual([1000, 0, 2000].map(admission(lets, 1000)), expected);
  });
}
