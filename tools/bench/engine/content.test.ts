import assert from "node:assert/strict";
import { test } from "node:test";
import { randomPages } from "./cases.ts";
import { LARGE, namesInTree, PAGE_BYTES, pageOf, PART_BYTES, partOf, TREE } from "./content.ts";

test("a part is made of its pages, and parts differ in every page", () => {
  const pages = PART_BYTES / PAGE_BYTES;
  const [first, third] = [partOf(0), partOf(2)];
  for (const n of [0, 1, pages - 1]) {
    const bytes = third.subarray(n * PAGE_BYTES, (n + 1) * PAGE_BYTES);
    assert(bytes.equals(pageOf(2 * pages + n)));
    assert(!bytes.equals(first.subarray(n * PAGE_BYTES, (n + 1) * PAGE_BYTES)));
  }
});

test("random pages lie within the object, are spread, and the same in every run", () => {
  const pages = [...randomPages(0, 500)];
  const last = LARGE.sizeBytes / PAGE_BYTES - 1;
  assert(pages.every((page) => page >= 0 && page <= last));
  assert(new Set(pages).size > 490);
  assert(Math.min(...pages) < last / 10 && Math.max(...pages) > last * 0.9);
  assert.deepEqual(pages, [...randomPages(0, 500)]);
  assert.notDeepEqual(pages, [...randomPages(1, 500)]);
});

test("the tree's names are distinct", () => {
  assert.equal(new Set(namesInTree()).size, TREE.directories * TREE.files);
});
