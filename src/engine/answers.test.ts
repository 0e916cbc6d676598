import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalRecord } from "../journal/record.ts";
import { replay } from "../journal/saved-state.ts";
import { Answers } from "./answers.ts";

const JOURNAL = { note: () => undefined, commit: () => undefined, makeRoom: () => true };

test("answers of long ago do not pile up from engine to engine; the last ones are kept", () => {
  let records: JournalRecord[] = [];
  for (let engine = 0; engine < 3; engine++) {
    const made = Array.from({ length: 3000 }, (_, index) => `${engine}.${index}`);
    records.push(...made.map((unique) => ({ is: "outcome", unique }) as const));
    const answers = new Answers(JOURNAL, replay(records));
    for (const unique of made) assert.notEqual(answers.of(unique), undefined);
    records = [...answers.records];
  }
  assert.equal(records.length, 4096);
});

test("no intent is forgotten from engine to engine, however many there are", () => {
  const intents = Array.from({ length: 5000 }, (_, index) => {
    return { is: "intent", unique: `0.${index}`, key: "key", etag: "" } as const;
  });
  const answers = new Answers(JOURNAL, replay(intents));
  assert.equal(answers.intents.length, 5000);
  assert.equal([...answers.records].length, 5000);
});

test("what was intended is known until it is done, well or not", () => {
  const records: JournalRecord[] = [];
  const journal = { ...JOURNAL, note: (record: JournalRecord) => void records.push(record) };
  const answers = new Answers(journal, undefined);
  for (const unique of ["0.1", "0.2", "0.3"]) answers.intend(unique, "key", '"e"');
  answers.done("0.2");
  answers.done("0.3", 5);
  const next = new Answers(JOURNAL, replay(records));
  const intended = next.intents.map(({ unique, key }) => [unique, key]);
  assert.deepEqual(intended, [["0.1", "key"]]);
  assert.equal(next.of("0.1"), undefined);
  assert.deepEqual(next.of("0.2"), { is: "outcome", unique: "0.2" });
  assert.deepEqual(next.of("0.3"), { is: "outcome", unique: "0.3", errno: 5 });
  next.forget("0.1");
  next.forget("0.2");
  assert.deepEqual([...replay(next.records).outcomes.keys()], ["0.3"]);
});
