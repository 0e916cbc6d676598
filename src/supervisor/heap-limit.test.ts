import assert from "node:assert/strict";
import { test } from "node:test";
import { containerMemory } from "../base/container-memory.ts";
import { heapFlags } from "./heap-limit.ts";

const MIB = 1 << 20;
const flags = (old: number, semi?: number) => [
  `--max-old-space-size=${old}`,
  ...(semi === undefined ? [] : [`--max-semi-space-size=${semi}`]),
];
// prettier-ignore
const rows: [containerMib: number | undefined, flags: string[]][] = [
  [undefined, []],
  [96,        flags(40, 1)],
  [128,       flags(44, 1)],
  [256,       flags(89, 2)],
  [600,       flags(210, 4)],
  [1023,      flags(358, 4)],
  [1024,      flags(358)],
  [8192,      flags(2867)],
];
for (const [containerMib, wanted] of rows) {
  test(`the heap of an engine in a container of ${containerMib ?? "unlimited"} MiB`, () => {
    assert.deepEqual(heapFlags(containerMib && containerMib * MIB), wanted);
  });
}

test("a raised limit leaves a fifth of the container to others", () => {
  assert.deepEqual(heapFlags(128 * MIB, 2), flags(88, 1));
  assert.deepEqual(heapFlags(128 * MIB, 4), flags(102, 1));
  assert.deepEqual(heapFlags(undefined, 4), []);
});

test("a limit above the machine is none", () => {
  assert.equal(containerMemory(0, 100), undefined);
  assert.equal(containerMemory(2 ** 64, 100), undefined);
  assert.equal(containerMemory(100, 100), undefined);
  assert.equal(containerMemory(99, 100), 99);
});
