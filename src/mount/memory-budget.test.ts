import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { heapLimitOf } from "../supervisor/heap-limit.ts";
import { memoryBudget, nameHeapBytesOf, totalBytesOf } from "./memory-budget.ts";
import type { MemoryBudget, MemoryWishes } from "./memory-budget.ts";

const MIB = 1 << 20;
const GIB = 1024 * MIB;
const WISHES: MemoryWishes = {
  containerBytes: undefined,
  machineBytes: 24 * GIB,
  targetBytes: undefined,
  inodes: undefined,
  writePartBytes: undefined,
  hasCache: false,
};
/** Areas and the spool are made of whole pages, an index of whole entries. */
const ROUNDING_BYTES = 3 * 4096;
/** Of the engine's heap, for everything that is not a name. */
const WORKING_HEAP_BYTES = 12 * MIB;

test("without a container's limit the sizes follow the machine and the options", () => {
  assert.deepEqual(memoryBudget(WISHES), {
    readBytes: 512 * MIB,
    spool: { limitBytes: 256 * MIB, hardBytes: 4 * GIB, keptBytes: 32 * MIB },
    writePartBytes: 8 * MIB,
    inodes: 200_000,
    journalAreaBytes: 51_200_000,
    heldWriteBytes: 1000 * (MIB + 4096),
    maxWriteBytes: MIB,
    cache: { pendingBytes: 32 * MIB, pieces: 262_144 },
    reduced: [],
  });
  const small = memoryBudget({ ...WISHES, machineBytes: GIB });
  assert.equal(small.readBytes, 256 * MIB);
  assert.equal(small.spool.hardBytes, 512 * MIB);
  const asked = { targetBytes: 100 * MIB, inodes: 1000, writePartBytes: 5 * GIB };
  const given = memoryBudget({ ...WISHES, ...asked });
  assert.equal(given.readBytes, 100 * MIB);
  assert.equal(given.spool.limitBytes, 50 * MIB);
  assert.equal(given.inodes, 1000);
  assert.equal(given.journalAreaBytes, 16 * MIB);
  assert.equal(given.writePartBytes, 5 * GIB);
  assert.equal(given.spool.hardBytes, 10 * GIB, "two parts have room");
});

/** In MiB but for the names; the write size in KiB. */
interface Row {
  readonly container: number;
  readonly reads: number;
  readonly hard: number;
  readonly part: number;
  readonly names: number;
  readonly write: number;
}
// prettier-ignore
const rows: Row[] = [
  { container: 96,   reads: 6,   hard: 12,   part: 6, names: 7_900,   write: 64 },
  { container: 128,  reads: 11,  hard: 20,   part: 8, names: 13_100,  write: 64 },
  { container: 512,  reads: 65,  hard: 119,  part: 8, names: 75_000,  write: 64 },
  { container: 1023, reads: 137, hard: 251,  part: 8, names: 157_400, write: 128 },
  { container: 1024, reads: 136, hard: 249,  part: 8, names: 156_500, write: 128 },
  { container: 8192, reads: 512, hard: 4096, part: 8, names: 200_000, write: 1024 },
];
for (const row of rows) {
  test(`in a container of ${row.container} MiB`, () => {
    const budget = memoryBudget({ ...WISHES, containerBytes: row.container * MIB });
    const mib = (bytes: number) => Math.floor(bytes / MIB);
    assert.deepEqual(
      {
        container: row.container,
        reads: mib(budget.readBytes),
        hard: mib(budget.spool.hardBytes),
        part: Math.round(budget.writePartBytes / MIB),
        names: Math.floor(budget.inodes / 100) * 100,
        write: budget.maxWriteBytes / 1024,
      },
      row,
    );
    assert.deepEqual(budget.reduced, []);
  });
}

test("a container too small to work is refused, in a way that does not end its mount", () => {
  assert.throws(
    () => memoryBudget({ ...WISHES, containerBytes: 64 * MIB }),
    (error) =>
      error instanceof Failure &&
      error.kind === "refused" &&
      error.message === "a memory limit of 64 MiB is too small: at least 96 MiB are needed",
  );
});

test("options that do not fit into the container are reduced, and named", () => {
  const asked = { targetBytes: 512 * MIB, inodes: 1_000_000, writePartBytes: 128 * MIB };
  const budget = memoryBudget({ ...WISHES, containerBytes: 128 * MIB, ...asked });
  const { readBytes, inodes, writePartBytes } = budget;
  assert.deepEqual(budget.reduced, [
    { option: "--memory-target", given: 512, used: Math.floor(readBytes / MIB) },
    { option: "--inode-limit", given: 1_000_000, used: inodes },
    { option: "--write-part-size", given: 128 * MIB, used: writePartBytes },
  ]);
});

const optional = (min: number, max: number) =>
  fc.option(fc.integer({ min, max }), { nil: undefined });
const anyWishes: fc.Arbitrary<MemoryWishes & { readonly containerBytes: number }> = fc.record({
  containerBytes: fc.oneof(
    fc.integer({ min: 96 * MIB, max: 2 * GIB }),
    fc.integer({ min: 96, max: 64 * 1024 }).map((mib) => mib * MIB),
  ),
  machineBytes: fc.constant(128 * GIB),
  targetBytes: optional(64, 1 << 20).map((mib) => mib && mib * MIB),
  inodes: optional(100, 100_000_000),
  writePartBytes: optional(5 * MIB, 5 * GIB),
  hasCache: fc.boolean(),
});

function check(wishes: MemoryWishes & { readonly containerBytes: number }): MemoryBudget {
  const budget = memoryBudget(wishes);
  const { spool } = budget;
  assert(totalBytesOf(budget) <= wishes.containerBytes * 0.9, "a tenth stays free");
  assert(budget.readBytes >= 3 * MIB, "a reader has a window");
  assert(budget.writePartBytes >= 5 * MIB, "S3 takes such parts");
  assert(2 * (budget.writePartBytes + 4096) <= spool.hardBytes, "two parts have room");
  assert(spool.limitBytes <= spool.hardBytes && spool.keptBytes <= spool.hardBytes);
  assert(budget.inodes >= 100 && budget.inodes <= (wishes.inodes ?? 200_000));
  const recordBytes = Math.min(GIB, budget.inodes * 256);
  assert(budget.journalAreaBytes >= recordBytes, "the journal has room for the names");
  assert(
    budget.journalAreaBytes * 0.75 >= 10_000 * 144,
    "and for the parts of a file, without them",
  );
  assert(budget.heldWriteBytes >= 64 * (budget.maxWriteBytes + 4096), "64 writers may wait");
  if (wishes.hasCache) assert(budget.cache.pendingBytes > 1.5 * MIB, "a piece can wait");
  const heapBytes = heapLimitOf(wishes.containerBytes);
  assert(nameHeapBytesOf(budget) <= heapBytes - WORKING_HEAP_BYTES, "the heap has room for names");
  for (const bytes of [spool.hardBytes, budget.journalAreaBytes]) assert.equal(bytes % 4096, 0);
  return budget;
}

test("whatever is asked for, all budgets together fit, and each is large enough to work", () => {
  fc.assert(
    fc.property(anyWishes, (wishes) => void check(wishes)),
    { numRuns: 2000 },
  );
});

test("more memory never means less for data and names", () => {
  const property = fc.property(anyWishes, fc.integer({ min: 0, max: GIB }), (wishes, more) => {
    const less = check(wishes);
    const larger = check({ ...wishes, containerBytes: wishes.containerBytes + more });
    const isOtherWrite = less.maxWriteBytes !== larger.maxWriteBytes; // its slots take some
    if (isOtherWrite) return;
    assert(larger.inodes >= less.inodes);
    assert(larger.readBytes >= less.readBytes - ROUNDING_BYTES);
    assert(larger.spool.hardBytes >= less.spool.hardBytes - ROUNDING_BYTES);
  });
  fc.assert(property, { numRuns: 2000 });
});

// As docs/semantics.md has them.
const WAITING_WRITES: [containerMib: number, writes: number][] = [
  [96, 90],
  [128, 150],
  [256, 390],
  [512, 500],
  [1024, 500],
  [2048, 500],
];
for (const [mib, writes] of WAITING_WRITES) {
  test(`${writes} writes can wait in a container of ${mib} MiB`, () => {
    const budget = memoryBudget({ ...WISHES, containerBytes: mib * MIB });
    assert(Math.floor(budget.heldWriteBytes / budget.maxWriteBytes) >= writes);
  });
}
