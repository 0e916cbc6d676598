import assert from "node:assert/strict";
import { test } from "node:test";
import { withCacheLimit } from "./cache-limit.ts";

// prettier-ignore
const cases: [name: string, args: string[], limitMib: number | undefined, want: string[]][] = [
  ["no cache",                   ["--uid=1"],                                        7,         ["--uid=1"]],
  ["no limit is known",          ["--cache=/cache"],                                 undefined, ["--cache=/cache"]],
  ["no size is given",           ["--cache=/cache", "--uid=1"],                      7,         ["--cache=/cache", "--uid=1", "--max-cache-size=7"]],
  ["a smaller one is kept",      ["--max-cache-size=6", "--cache=/cache"],           7,         ["--max-cache-size=6", "--cache=/cache"]],
  ["a larger one is reduced",    ["--max-cache-size=8", "--cache=/cache", "--x"],    7,         ["--cache=/cache", "--x", "--max-cache-size=7"]],
  ["the engine refuses others",  ["--max-cache-size=big", "--cache=/cache"],         7,         ["--max-cache-size=big", "--cache=/cache"]],
];
for (const [name, args, limitMib, want] of cases) {
  test(`cache limit: ${name}`, () => {
    assert.deepEqual(withCacheLimit(args, limitMib), want);
  });
}
