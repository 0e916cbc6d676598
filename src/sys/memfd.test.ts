import assert from "node:assert/strict";
import { closeSync } from "node:fs";
import { test } from "node:test";
import { createMemfd, LazyMemory } from "./memfd.ts";

const CHUNK_BYTES = 64 * 1024;

test("a piece that crosses chunks is whole, and shows the same bytes as its chunks", () => {
  const fd = createMemfd("memfd-test", 4 * CHUNK_BYTES);
  const memory = new LazyMemory(fd, 4 * CHUNK_BYTES, CHUNK_BYTES);
  const start = CHUNK_BYTES - 4096;
  const across = memory.subarray(start, 2 * CHUNK_BYTES + 4096);
  assert.equal(across.length, CHUNK_BYTES + 8192);
  across.fill(7);
  for (const [from, to] of [
    [start, CHUNK_BYTES],
    [CHUNK_BYTES, 2 * CHUNK_BYTES],
    [2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 4096],
  ] as const) {
    assert(memory.subarray(from, to).every((byte) => byte === 7));
  }
  assert.equal(memory.subarray(0, start).length, start);
  closeSync(fd);
});
