import assert from "node:assert/strict";
import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { mountBucket } from "./engine-process.ts";
import { memoryMib } from "./process-figures.ts";
import { TestBucket } from "./test-bucket.ts";

const OPEN_FILES = process.env["FULL"] === "1" ? 10_000 : 3_000;
const OBJECTS = 8;
const OBJECT_BYTES = 2 << 20;
const PAGE_BYTES = 4096;
const AT_ONCE = 16;
const MEMORY_TARGET_MIB = 128;
/** Node itself, its code, its heap with all those handles, its threads, and buffers kept for reuse. */
const OVERHEAD_MIB = 200;

function contentOf(n: number): Buffer {
  const content = Buffer.alloc(OBJECT_BYTES, `object ${n} `);
  for (let at = 0; at < OBJECT_BYTES; at += PAGE_BYTES) content.writeUInt32LE(at, at);
  return content;
}

test(`${OPEN_FILES} files stay open: memory is bounded, and each of them can be read on`, async () => {
  await using owned = new AsyncDisposableStack();
  const bucket = owned.use(await TestBucket.start());
  const contents = Array.from({ length: OBJECTS }, (_, n) => contentOf(n));
  for (const [n, content] of contents.entries()) await bucket.put(`object-${n}`, content);
  const mount = owned.use(
    await mountBucket(bucket, [
      "--memory-target",
      String(MEMORY_TARGET_MIB),
      "--metadata-ttl",
      "60",
    ]),
  );
  const pid = mount.engine.servingPid ?? 0;

  // O_DIRECT: every handle reads for itself, and none is served by the pages of another.
  const flags = constants.O_RDONLY | constants.O_DIRECT;
  const files: fs.FileHandle[] = [];
  const checkPage = async (n: number, at: number) => {
    files[n] ??= owned.use(await fs.open(join(mount.dir, `object-${n % OBJECTS}`), flags));
    const { buffer } = await files[n].read(Buffer.alloc(PAGE_BYTES), 0, PAGE_BYTES, at);
    const expected = contents[n % OBJECTS]?.subarray(at, at + PAGE_BYTES);
    assert(expected !== undefined && buffer.equals(expected), `file ${n} differs at ${at}`);
  };
  const checkAll = async (at: number, step: number) => {
    let next = 0;
    const worker = async () => {
      for (let n = next; n < OPEN_FILES; n = next) {
        next += step;
        await checkPage(n, at);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  };
  await checkAll(0, 1);
  await checkAll(PAGE_BYTES, 7);

  const limitMib = MEMORY_TARGET_MIB + OVERHEAD_MIB;
  const peakMib = memoryMib(pid, "VmHWM");
  assert(peakMib < limitMib, `${peakMib} MiB of at most ${limitMib}`);
});
