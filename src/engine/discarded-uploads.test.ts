import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { JournalRecord } from "../journal/record.ts";
import { replay } from "../journal/saved-state.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { DiscardedUploads } from "./discarded-uploads.ts";

function notebook() {
  const records: JournalRecord[] = [];
  const note = (record: JournalRecord) => void records.push(record);
  return { records, note, commit: () => undefined };
}

class AwayStore extends MemoryStore {
  override async abortUpload(): Promise<void> {
    throw new Failure("remote", "away");
  }
}

test("what S3 could not be told is told by the next engine, and then forgotten", async () => {
  const first = notebook();
  const lost = new DiscardedUploads(new AwayStore(), first);
  const store = new MemoryStore();
  const uploadId = await store.createUpload("key");
  await assert.rejects(lost.discard("key", uploadId), /away/);
  const { doomed } = replay(first.records);
  assert.deepEqual([...doomed], [[uploadId, "key"]]);
  assert.deepEqual(replay(lost.records).doomed, doomed);

  const second = notebook();
  const next = new DiscardedUploads(store, second);
  next.restore(doomed);
  await new Promise(setImmediate);
  assert.equal(store.unfinishedUploads, 0);
  assert.deepEqual([...next.records], []);
  assert.equal(replay([...first.records, ...second.records]).doomed.size, 0);
});

test("an upload that has gone already is not remembered for ever", async () => {
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(new MemoryStore(), journal);
  await discarded.discard("key", "gone");
  assert.deepEqual([...discarded.records], []);
  assert.equal(replay(records).doomed.size, 0);
});
