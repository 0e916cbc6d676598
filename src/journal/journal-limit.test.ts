import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { Journal, journalBytes } from "./journal.ts";
import type { JournalOptions } from "./journal.ts";
import type { JournalRecord } from "./record.ts";
import { replay } from "./saved-state.ts";

const AREA_BYTES = 4096;
const HEADER_BYTES = 4096;
const OPTIONS: JournalOptions = { onFenced: () => assert.fail("fenced") };

const inode = (id: number): JournalRecord => ({ is: "inode", id, path: `path-${id}`, refs: 1 });

/** The memory that the next process would find if this one were killed now. */
function found(memory: Buffer) {
  return replay(Journal.resume(Buffer.from(memory), OPTIONS).records);
}

function* endless(): Generator<JournalRecord, void, undefined> {
  for (let id = 2; ; id++) yield inode(id);
}

/** Its state is made of as many inodes and open files as the journal takes. */
function fullJournal() {
  const memory = Buffer.alloc(journalBytes(AREA_BYTES));
  const journal = Journal.begin(memory, OPTIONS);
  const inodes = new Map<number, JournalRecord>();
  const handles = new Map<number, JournalRecord[]>();
  journal.state = function* state() {
    yield* inodes.values();
    for (const records of handles.values()) yield* records;
  };
  const open: JournalRecord = { is: "open", handle: 1, id: 2, how: "write", pid: 1 };
  handles.set(1, [open]);
  journal.note(open);
  for (let id = 2; ; id++) {
    try {
      journal.note(inode(id));
    } catch (error) {
      assert(error instanceof Failure && error.kind === "busy");
      break;
    }
    inodes.set(id, inode(id));
    journal.commit();
  }
  return { memory, journal, inodes, handles };
}

const beginnings: JournalRecord[] = [
  { is: "open", handle: 2, id: 2, how: "write", pid: 1 },
  { is: "segment", handle: 1, part: 1, at: 0, size: 100_000 },
  { is: "creating", handle: 1, nonce: "0123456789abcdef", sinceMs: 1_763_000_000_000 },
  { is: "intent", unique: "0.1", key: "path-2", etag: "0123456789abcdef" },
];
for (const record of beginnings) {
  test(`a full journal refuses what begins something: ${record.is}`, () => {
    const { memory, journal } = fullJournal();
    const before = found(memory);
    assert.throws(
      () => journal.note(record),
      (error) => error instanceof Failure && error.kind === "busy",
    );
    journal.commit();
    assert.deepEqual(found(memory), before, "nothing of it was noted");
  });
}

test("a full journal takes every end: uploads fail and close, names are forgotten", () => {
  const { memory, journal, inodes, handles } = fullJournal();
  journal.note({ is: "failed", handle: 1, code: "EIO", reason: "the part was refused" });
  handles.get(1)?.push({ is: "failed", handle: 1, code: "EIO", reason: "the part was refused" });
  journal.commit();
  assert.equal(found(memory).handles.get(1)?.upload.ending?.is, "failed");
  journal.note({ is: "closed", handle: 1 });
  handles.clear();
  journal.commit();
  assert.equal(found(memory).handles.size, 0);
  for (const id of inodes.keys()) {
    journal.note({ is: "refs", id, refs: 0 });
    journal.note({ is: "gone", id });
    inodes.delete(id);
    journal.commit();
    assert.deepEqual([...found(memory).inodes.keys()], [...inodes.keys()]);
  }
  assert(journal.hasRoom, "there is room again");
});

test("a full journal takes any number of ends and changes in one commit", () => {
  const { memory, journal, inodes } = fullJournal();
  const ids = [...inodes.keys()];
  for (let round = 1; round <= 100; round++) {
    for (const id of ids) {
      journal.note({ is: "refs", id, refs: round % 10 });
      inodes.set(id, { ...inode(id), refs: round % 10 } as JournalRecord);
    }
  }
  const [first = 0] = ids;
  const changed: JournalRecord = { is: "inode", id: first, path: `path-${first}`, refs: 7 };
  journal.note(changed, true);
  inodes.set(first, changed);
  journal.commit();
  assert.deepEqual([...found(memory).inodes.values()], [...inodes.values()]);
});

test("a commit before the state is known is made up for by the next one", () => {
  const memory = Buffer.alloc(journalBytes(AREA_BYTES));
  const journal = Journal.begin(memory, OPTIONS);
  journal.note(inode(2));
  for (let refs = 2; refs < 1000; refs++) journal.note({ is: "refs", id: 2, refs });
  journal.commit();
  assert.deepEqual([...found(memory).inodes], [], "it does not fit");
  const state = { ...inode(2), refs: 1000 } as JournalRecord;
  journal.state = () => [state];
  journal.note({ is: "refs", id: 2, refs: 1000 });
  journal.commit();
  assert.deepEqual([...found(memory).inodes.values()], [state]);
});

test("ends are possible whatever was noted before, and are found", () => {
  const steps = fc.array(fc.record({ begins: fc.boolean(), id: fc.integer({ min: 2, max: 90 }) }), {
    minLength: 100,
    maxLength: 400,
  });
  const property = fc.property(steps, fc.nat({ max: 5 }), (all, each) => {
    const memory = Buffer.alloc(journalBytes(AREA_BYTES));
    const journal = Journal.begin(memory, OPTIONS);
    const inodes = new Map<number, JournalRecord>();
    journal.state = () => inodes.values();
    for (const [step, { begins, id }] of all.entries()) {
      if (!begins || inodes.has(id)) {
        journal.note({ is: "gone", id });
        inodes.delete(id);
      } else if (journal.hasRoom) {
        journal.note(inode(id));
        inodes.set(id, inode(id));
      }
      if (step % (each + 1) === 0) journal.commit();
    }
    journal.commit();
    const ids = [...found(memory).inodes.keys()].toSorted((one, other) => one - other);
    assert.deepEqual(
      ids,
      [...inodes.keys()].toSorted((one, other) => one - other),
    );
  });
  fc.assert(property, { numRuns: 100 });
});

test("both areas filled by an engine that was killed while it compacted: one is given back", () => {
  const memory = Buffer.alloc(journalBytes(AREA_BYTES));
  const journal = Journal.begin(memory, OPTIONS);
  const kills: Buffer[] = [];
  journal.state = function* state() {
    yield inode(2);
    kills.push(Buffer.from(memory));
    yield inode(3);
  };
  for (let refs = 1; kills.length === 0; refs++) {
    journal.note(refs === 1 ? inode(2) : { is: "refs", id: 2, refs });
    journal.commit();
  }
  const [killed = memory] = kills;
  const [first, second] = [0, 1].map((area) => killed[HEADER_BYTES + area * AREA_BYTES]);
  assert(first !== 0 && second !== 0, "both hold something");
  const idle: [offset: number, sizeBytes: number][] = [];
  const onIdle = (offset: number, sizeBytes: number) => void idle.push([offset, sizeBytes]);
  const { records } = Journal.resume(killed, { ...OPTIONS, onIdle });
  assert.deepEqual(idle, [], "damage may still be found: nothing is changed yet");
  assert.equal(replay(records).inodes.size, 1);
  assert.deepEqual(idle, [[HEADER_BYTES + AREA_BYTES, AREA_BYTES]]);
});

test("a state that does not fit leaves no pages behind", () => {
  const idle: number[] = [];
  const memory = Buffer.alloc(journalBytes(AREA_BYTES));
  const journal = Journal.begin(memory, { ...OPTIONS, onIdle: (offset) => void idle.push(offset) });
  journal.state = endless;
  for (let id = 2; idle.length === 0; id++) {
    journal.note(inode(id));
    journal.commit();
  }
  assert.deepEqual(idle, [HEADER_BYTES + AREA_BYTES]);
  assert(!journal.hasRoom);
});
