import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import type { JournalRecord } from "./record.ts";
import { replay, uploadRecords } from "./saved-state.ts";
import type { SavedState } from "./saved-state.ts";

const id = fc.integer({ min: 2, max: 5 });
const handle = fc.integer({ min: 1, max: 3 });
const part = fc.integer({ min: 1, max: 3 });
const unique = fc.constantFrom("0.1", "0.2", "0.3");
/** Of requests to remove something: they are answered without an entry. */
const removal = fc.constantFrom("1.1", "1.2");
const maybe = { requiredKeys: ["is"] as ["is"] };
const is = <Kind extends string>(kind: Kind) => fc.constant(kind);
const flag = fc.constant(true as const);
const text = fc.constantFrom("a", "b");

const inode = fc
  .tuple(
    fc.record({ is: is("inode"), id, path: text, refs: fc.nat({ max: 3 }) }),
    fc.record({ is: is("inode"), local: flag, unbound: flag, directory: flag, unique }, maybe),
  )
  .map(([must, may]) => ({ ...must, ...may }));
const open = fc
  .tuple(
    fc.record({
      is: is("open"),
      handle,
      id,
      how: fc.constant("write" as const),
      pid: fc.constant(1),
    }),
    fc.record({ is: is("open"), unique }, maybe),
  )
  .map(([must, may]) => ({ ...must, ...may }));
const uploadId = fc.constantFrom("u1", "u2");
const size = fc.constant(9);
const anyRecord: fc.Arbitrary<JournalRecord> = fc.oneof(
  inode,
  open,
  fc.record({ is: is("next"), id, handle }),
  fc.record({ is: is("refs"), id, refs: fc.nat({ max: 3 }), unique }),
  fc.record({ is: is("gone"), id }),
  fc.record({ is: is("closed"), handle }),
  fc.record({ is: is("released"), handle, optional: flag }),
  fc.record({ is: is("place"), handle, index: part, after: text }),
  fc.record({ is: is("segment"), handle, part, at: fc.constant(4096), size }),
  fc.record({ is: is("creating"), handle, nonce: text, sinceMs: size }),
  fc.record({ is: is("created"), handle, uploadId }),
  fc.record({ is: is("sent"), handle, part, etag: text, size }),
  fc.record({ is: is("putting"), handle, nonce: text }),
  fc.record({ is: is("completing"), handle }),
  fc.record({ is: is("completed"), handle, etag: text }),
  fc.record({ is: is("continued"), handle }),
  fc.record({ is: is("failed"), handle, code: text, reason: text }),
  fc.record({ is: is("doomed"), key: text, uploadId }),
  fc.record({ is: is("suspect"), key: text, sinceMs: part, optional: fc.constant(true as const) }),
  fc.record({ is: is("aborted"), uploadId }),
  fc.record({ is: is("intent"), unique: removal, key: text, etag: text }),
  fc.record({ is: is("outcome"), unique: removal }),
);

/** What a compaction writes. */
function* recordsOf(state: SavedState): Generator<JournalRecord, void, undefined> {
  yield { is: "next", id: state.nextId, handle: state.nextHandle };
  yield* state.inodes.values();
  for (const saved of state.handles.values()) {
    yield saved.open;
    yield* uploadRecords(saved.upload);
    if (saved.place !== undefined) yield saved.place;
    if (saved.released !== undefined) yield saved.released;
  }
  yield* state.doomed.values();
  yield* state.suspects.values();
  yield* state.intents.values();
  yield* state.outcomes.values();
}

/** Those that make sense where they stand. */
function sensible(records: readonly JournalRecord[]): JournalRecord[] {
  const kept: JournalRecord[] = [];
  for (const record of records) {
    try {
      const { outcomes } = replay([...kept, record]);
      const isTooLate = record.is === "intent" && outcomes.has(record.unique);
      if (!isTooLate) kept.push(record);
    } catch (error) {
      assert(error instanceof Failure && /lacks inode/.test(error.message));
    }
  }
  return kept;
}

test("a compaction says the same in fewer words, wherever it happens", () => {
  const property = fc.property(
    fc.array(anyRecord, { maxLength: 40, size: "max" }),
    fc.nat({ max: 40 }),
    (random, cut) => {
      const records = sensible(random);
      const want = replay(records);
      const compacted = [...recordsOf(replay(records.slice(0, cut)))];
      assert.deepEqual(replay([...compacted, ...records.slice(cut)]), want);
    },
  );
  fc.assert(property, { numRuns: 500 });
});

test("a change of an inode that was never noted is damage", () => {
  assert.throws(
    () => replay([{ is: "refs", id: 2, refs: 1 }]),
    (error) => error instanceof Failure && error.kind === "invalid",
  );
});

test("outcomes of long ago are not kept while a journal is read, the last ones are", () => {
  const uniques = Array.from({ length: 20_000 }, (_, n) => `0.${n}`);
  const { outcomes } = replay(uniques.map((one) => ({ is: "outcome", unique: one }) as const));
  assert(outcomes.size < 8192, `${outcomes.size} are kept`);
  for (const one of uniques.slice(-4096)) assert(outcomes.has(one), one);
});
