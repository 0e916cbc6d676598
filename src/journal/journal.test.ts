import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { isJournal, Journal, journalBytes } from "./journal.ts";
import type { JournalOptions } from "./journal.ts";
import type { JournalRecord } from "./record.ts";
import { replay } from "./saved-state.ts";

const AREA_BYTES = 2048;
const HEADER_BYTES = 4096;
const OPTIONS: JournalOptions = { onFenced: () => assert.fail("fenced") };
/** Words of the header, as journals in the field have them. */
const AT = { magic: 0, format: 4, epoch: 8, active: 12, areaBytes: 16, tail: 20 } as const;

const inode = (id: number, path: string): JournalRecord => ({ is: "inode", id, path, refs: 1 });

function begun(options = OPTIONS) {
  const memory = Buffer.alloc(journalBytes(AREA_BYTES));
  return { memory, journal: Journal.begin(memory, options) };
}

/** The memory that the next process would find if this one were killed now. */
function found(memory: Buffer): JournalRecord[] {
  return [...Journal.resume(Buffer.from(memory), OPTIONS).records];
}

test("committed records are found, in their order; what was only noted is lost as a whole", () => {
  const { memory, journal } = begun();
  assert(isJournal(memory));
  assert.equal(isJournal(Buffer.alloc(journalBytes(AREA_BYTES))), false);
  assert.deepEqual(found(memory), []);
  const first = [inode(2, "a"), inode(3, 'ä/€/𝄞 \n"\\\u2028')];
  for (const record of first) journal.note(record);
  assert.deepEqual(found(memory), []);
  journal.commit();
  journal.note(inode(4, "b"));
  assert.deepEqual(found(memory), first);
  const { journal: second, records } = Journal.resume(memory, OPTIONS);
  assert.throws(() => second.note(inode(5, "c")), /were not read/);
  assert.deepEqual([...records], first);
  second.note(inode(5, "c"));
  second.commit();
  assert.deepEqual(found(memory), [...first, inode(5, "c")]);
});

test("a kill in the middle of a record's bytes: the tail decides", () => {
  const { memory, journal } = begun();
  journal.note(inode(2, "a"));
  journal.commit();
  const before = Buffer.from(memory);
  journal.note(inode(3, "b"));
  journal.commit();
  for (let at = HEADER_BYTES; at < memory.length; at++) {
    if (memory[at] === before[at]) continue;
    before[at] = memory[at] ?? 0;
    assert.deepEqual(found(before), [inode(2, "a")]);
  }
  memory.copy(before, 0, 0, HEADER_BYTES);
  assert.deepEqual(before, memory);
  assert.deepEqual(found(before), [inode(2, "a"), inode(3, "b")]);
});

test("many records of one turn, more than are kept back, become true at once", () => {
  const memory = Buffer.alloc(journalBytes(1 << 20));
  const journal = Journal.begin(memory, OPTIONS);
  const records = Array.from({ length: 2_000 }, (_, n) => inode(n + 2, `€/${n}`));
  for (const record of records) journal.note(record);
  assert(journal.usedBytes > 64 * 1024);
  assert.deepEqual(found(memory), []);
  journal.commit();
  assert.deepEqual(found(memory), records);
});

interface Change {
  readonly do: "put" | "gone";
  readonly id: number;
  readonly path: string;
}
const anyChange: fc.Arbitrary<Change> = fc.record({
  do: fc.constantFrom("put", "put", "gone"),
  id: fc.integer({ min: 2, max: 7 }),
  path: fc.string({ unit: "binary", maxLength: 8 }),
});
/** What is committed together. */
const anyTurn = fc.array(anyChange, { maxLength: 3 });

/** An owner with a state of its own, who is watched at every instant at which he can be killed. */
class Owner {
  readonly seen: Buffer[] = [];
  compactions = 0;
  readonly #memory = Buffer.alloc(journalBytes(2 * AREA_BYTES));
  readonly #journal = Journal.begin(this.#memory, {
    ...OPTIONS,
    onIdle: (at, size) => this.#idle(at, size),
  });
  readonly #inodes = new Map<number, JournalRecord>();

  constructor() {
    this.#journal.state = () => this.#state();
  }

  change({ do: verb, id, path }: Change): void {
    const record = inode(id, `${id}/${path}`);
    if (verb === "put") this.#inodes.set(id, record);
    else this.#inodes.delete(id);
    this.#journal.note(verb === "put" ? record : { is: "gone", id });
    this.#watch();
  }

  commit(): void {
    this.#journal.commit();
    this.#watch();
  }

  get inodes(): Map<number, JournalRecord> {
    return new Map([...this.#inodes].toSorted(([one], [other]) => one - other));
  }

  get found(): Map<number, JournalRecord> {
    return inodesIn(this.#memory);
  }

  *#state(): Generator<JournalRecord, void, undefined> {
    yield { is: "next", id: 8, handle: 1 };
    for (const record of this.#inodes.values()) {
      this.#watch();
      yield record;
    }
    this.#watch();
  }

  #idle(at: number, sizeBytes: number): void {
    this.#watch();
    this.compactions += 1;
    this.#memory.fill(0, at, at + sizeBytes);
  }

  #watch(): void {
    this.seen.push(Buffer.from(this.#memory));
  }
}

function inodesIn(memory: Buffer): Map<number, JournalRecord> {
  const { inodes } = replay(found(memory));
  return new Map([...inodes].toSorted(([one], [other]) => one - other));
}

test("killed at any instant, also of a compaction, it is as between two commits", () => {
  let compactions = 0;
  const property = fc.property(fc.array(anyTurn, { minLength: 60, maxLength: 80 }), (turns) => {
    const owner = new Owner();
    for (const turn of turns) {
      const before = owner.inodes;
      for (const change of turn) owner.change(change);
      for (const memory of owner.seen.splice(0)) assert.deepEqual(inodesIn(memory), before);
      owner.commit();
      const after = owner.inodes;
      for (const memory of owner.seen.splice(0)) {
        const inodes = inodesIn(memory);
        if (!isDeepStrictEqual(inodes, before)) assert.deepEqual(inodes, after);
      }
      assert.deepEqual(owner.found, after);
    }
    compactions += owner.compactions;
  });
  fc.assert(property, { numRuns: 40 });
  assert(compactions > 20, `only ${compactions} compactions`);
});

test("nothing is compacted before somebody knows the whole state", () => {
  const { memory, journal } = begun();
  const noted: JournalRecord[] = [];
  const add = () => {
    noted.push(inode(2, "x"));
    journal.note(inode(2, "x"));
    journal.commit();
  };
  while (journal.usedBytes < AREA_BYTES * 0.9) add();
  assert.deepEqual(found(memory), noted);
  journal.state = () => [inode(2, "x")];
  add();
  assert.deepEqual(found(memory), [inode(2, "x")]);
});

test("an engine that was followed by another one writes nothing", () => {
  let fenced = 0;
  const { memory, journal } = begun({ onFenced: () => void (fenced += 1) });
  journal.note(inode(2, "a"));
  const { journal: next, records } = Journal.resume(memory, OPTIONS);
  assert.deepEqual([...records], []);
  assert(next.epoch > journal.epoch);
  const before = Buffer.from(memory);
  journal.note(inode(3, "b"));
  journal.commit();
  assert.equal(fenced, 2);
  assert.deepEqual(memory, before);
  next.note(inode(4, "c"));
  next.commit();
  assert.deepEqual(found(memory), [inode(4, "c")]);
});

test("the next format is read, with fields and optional kinds that we do not know", () => {
  const { memory, journal } = begun();
  const record = { ...inode(2, "a"), colour: "red" };
  journal.note(record);
  journal.note({ is: "weather", optional: true } as unknown as JournalRecord);
  journal.commit();
  memory.writeInt32LE(2, AT.format);
  assert.deepEqual([...replay(found(memory)).inodes.values()], [record]);
});

const COMMITTED = `${JSON.stringify(inode(2, "a"))}\n`;
const damages: [what: string, damage: (memory: Buffer) => unknown, message: RegExp][] = [
  ["format N+2", (memory) => memory.writeInt32LE(3, AT.format), /format 3: .* reads 1 and 2/],
  ["format 0", (memory) => memory.writeInt32LE(0, AT.format), /format 0/],
  ["magic", (memory) => memory.writeInt32LE(1, AT.magic), /its beginning/],
  ["size 0", (memory) => memory.writeInt32LE(0, AT.areaBytes), /its size/],
  ["large size", (memory) => memory.writeInt32LE(AREA_BYTES + 1, AT.areaBytes), /its size/],
  ["active", (memory) => memory.writeInt32LE(2, AT.active), /its active area/],
  ["tail < 0", (memory) => memory.writeInt32LE(-1, AT.tail), /its tail/],
  ["tail too far", (memory) => memory.writeInt32LE(AREA_BYTES + 1, AT.tail), /its tail/],
  ["tail in a record", (memory) => memory.writeInt32LE(COMMITTED.length - 3, AT.tail), /its last/],
  ["tail behind", (memory) => memory.writeInt32LE(COMMITTED.length + 9, AT.tail), /its last/],
  ["a byte", (memory) => memory.write("}", HEADER_BYTES), /a record/],
  [
    "no record",
    (memory) => memory.write("null".padEnd(COMMITTED.length - 1), HEADER_BYTES),
    /a record/,
  ],
];
for (const [what, damage, message] of damages) {
  test(`refused, with a reason: ${what}`, () => {
    const { memory, journal } = begun();
    journal.note(inode(2, "a"));
    journal.commit();
    damage(memory);
    assert.throws(
      () => found(memory),
      (error) =>
        error instanceof Failure && error.kind === "invalid" && message.test(error.message),
    );
  });
}

test("a kind that nobody may skip is refused", () => {
  const record = { is: "weather" } as unknown as JournalRecord;
  assert.throws(() => replay([record]), /unknown kind: weather/);
});

test("full: it says so before it refuses, and what was committed stays", () => {
  const { memory, journal } = begun();
  const noted: JournalRecord[] = [];
  journal.state = () => noted;
  let saidSo = false;
  for (let id = 2; ; id++) {
    saidSo ||= !journal.hasRoom;
    try {
      journal.note(inode(id, "path"));
    } catch (error) {
      assert(error instanceof Failure && error.kind === "busy");
      break;
    }
    noted.push(inode(id, "path"));
    journal.commit();
    assert.deepEqual(found(memory), noted);
  }
  assert(saidSo, "hasRoom turned false first");
  assert.deepEqual(found(memory), noted);
});

test("with less to remember there is room again", () => {
  const { memory, journal } = begun();
  let state: JournalRecord[] = [];
  journal.state = () => state;
  while (journal.hasRoom) {
    state.push(inode(state.length + 2, "path"));
    journal.note(inode(state.length + 1, "path"));
    journal.commit();
  }
  state = state.slice(0, 1);
  for (let id = 3; !journal.hasRoom; id++) {
    journal.note({ is: "gone", id });
    journal.commit();
  }
  assert.deepEqual(found(memory), state);
});

test("an area of 1 GiB, the largest one, can be begun and resumed", () => {
  const areaBytes = 2 ** 30;
  const header = Buffer.alloc(4096);
  const windows = new Map<number, Buffer>();
  const memory = {
    length: journalBytes(areaBytes),
    /** Only the pieces that are used exist. */
    subarray(start: number, end: number): Buffer {
      if (start === 0) return header.subarray(0, end);
      const window = windows.get(start) ?? Buffer.alloc(end - start);
      windows.set(start, window);
      return window;
    },
  };
  const journal = Journal.begin(memory, OPTIONS);
  assert(journal.hasRoom);
  journal.note({ is: "closed", handle: 1 });
  journal.commit();
  const { records } = Journal.resume(memory, OPTIONS);
  assert.deepEqual([...records], [{ is: "closed", handle: 1 }]);
});
