import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuantity } from "./quantity.ts";

// prettier-ignore
const cases: [text: string, value: number][] = [
  ["1", 1], ["0.5", 0.5], [".5", 0.5], ["5.", 5], ["100m", 0.1], ["1k", 1000], ["2M", 2e6],
  ["1Ki", 1024], ["512Mi", 512 * 1024 ** 2], ["1.5Gi", 1.5 * 1024 ** 3], ["3Ti", 3 * 1024 ** 4],
  ["1E", 1e18], ["2Ei", 2 ** 61], ["1e3", 1000], ["1E3", 1000], ["5e-1", 0.5],
];
for (const [text, value] of cases) {
  test(`quantity: ${text}`, () => {
    assert.equal(parseQuantity("f", text), value);
  });
}

for (const text of ["", "0", "0Gi", "-1", "1 Gi", "1gi", "1KB", "Gi", "1Gi ", "NaN", "1e", "١"]) {
  test(`quantity: ${JSON.stringify(text)} is none`, () => {
    assert.throws(() => parseQuantity("volumeAttributes.x", text), {
      kind: "invalid",
      message: new RegExp(`volumeAttributes.x is ${JSON.stringify(text)}`),
    });
  });
}
