import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { JournalFull } from "../journal/journal.ts";
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
  await lost.discard("key", uploadId);
  const { doomed } = replay(first.records);
  assert.deepEqual([...doomed.values()], [{ is: "doomed", key: "key", uploadId }]);
  assert.deepEqual(replay(lost.records).doomed, doomed);

  const second = notebook();
  const next = new DiscardedUploads(store, second);
  next.restore({ doomed, suspects: new Map() });
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

test("an abort that S3 does not execute is repeated, at the latest when the mount ends", async () => {
  class LateStore extends MemoryStore {
    refusals = 3;
    override async abortUpload(key: string, uploadId: string): Promise<void> {
      if (this.refusals-- > 0) throw new Failure("remote", "away");
      return super.abortUpload(key, uploadId);
    }
  }
  const store = new LateStore();
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(store, journal);
  await discarded.discard("key", await store.createUpload("key"));
  assert.equal(store.unfinishedUploads, 1);
  await discarded.finish();
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(replay(records).doomed.size, 0);
});

test("a part that S3 stores after the abort does not keep the upload", async () => {
  class SlowStore extends MemoryStore {
    aborts = 0;
    #late: string | undefined;
    override async abortUpload(key: string, uploadId: string): Promise<void> {
      this.aborts += 1;
      const id = this.#late ?? uploadId;
      this.#late = undefined;
      await super.abortUpload(key, id);
      if (this.aborts === 1) this.#late = await this.createUpload(key); // for the late part
    }
  }
  const store = new SlowStore();
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(store, journal, [1, 1, 1]);
  await discarded.discard("key", await store.createUpload("key"));
  assert.equal(store.unfinishedUploads, 1);
  assert.equal(replay(records).doomed.size, 0, "no caller and no successor waits for it");
  await discarded.finish();
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(store.aborts, 3, "once more, and once to see that nothing is left");
});

test("an upload whose id was lost is found by its key", async () => {
  const store = new MemoryStore();
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(store, journal);
  await store.createUpload("key");
  await discarded.discardStrays("key", Date.now());
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(replay(records).doomed.size, 0);
});

test("an upload that begins after its strays were looked for is removed when the mount ends", async () => {
  const store = new MemoryStore();
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(store, journal);
  discarded.suspect("key", Date.now());
  await store.createUpload("key"); // a request that a dead engine had sent
  await discarded.finish();
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(replay(records).doomed.size, 0);
});

test("the engine that ends the mount looks for what an engine before it had asked for", async () => {
  const store = new MemoryStore();
  const first = notebook();
  const killed = new DiscardedUploads(store, first);
  killed.suspect("key", Date.now());
  assert.deepEqual(replay(killed.records).suspects, replay(first.records).suspects);

  const second = notebook();
  const next = new DiscardedUploads(store, second);
  next.restore(replay(first.records));
  assert.deepEqual(replay(next.records).suspects, replay(first.records).suspects);
  await store.createUpload("key"); // the request of the engine that was killed
  await next.finish();
  assert.equal(store.unfinishedUploads, 0);
});

test("strays of a key are looked for in the time in which its lost requests can be executed", async () => {
  const HALF_HOUR_MS = 1_800_000;
  const searches: (readonly [sinceMs: number | undefined, untilMs: number | undefined])[] = [];
  class SearchedStore extends MemoryStore {
    nowMs = 1_000_000;
    override earliestNowMs() {
      return this.nowMs;
    }
    override async abortStrays(
      _key: string,
      sinceMs?: number,
      _signal?: AbortSignal,
      untilMs?: number,
    ) {
      searches.push([sinceMs, untilMs]);
    }
  }
  const store = new SearchedStore();
  const { records, ...journal } = notebook();
  const killed = new DiscardedUploads(store, journal);
  killed.suspect("key", 990_000);
  store.nowMs = 2_000_000;
  killed.suspect("key", 1_990_000); // both are looked for
  const next = new DiscardedUploads(store, notebook());
  next.restore(replay(records));
  store.nowMs = 900_000_000; // the mount ends ten days later
  await next.finish();
  await new DiscardedUploads(store, notebook()).discardStrays("other", 899_999_000);
  assert.deepEqual(searches, [
    [990_000, 2_000_000 + HALF_HOUR_MS],
    [899_999_000, 900_000_000 + HALF_HOUR_MS],
  ]);
});

test("strays that an older release has noted are looked for until the mount ends", async () => {
  const searches: (number | undefined)[] = [];
  class SearchedStore extends MemoryStore {
    override async abortStrays(
      _key: string,
      _since?: number,
      _signal?: AbortSignal,
      untilMs?: number,
    ) {
      searches.push(untilMs);
    }
  }
  const { records, ...journal } = notebook();
  records.push({ is: "suspect", key: "key", sinceMs: 1, optional: true });
  const discarded = new DiscardedUploads(new SearchedStore(), journal);
  discarded.restore(replay(records));
  discarded.suspect("key", 2);
  await discarded.finish();
  assert.deepEqual(searches, [undefined]);
});

test("a journal without room does not keep strays from being looked for", async () => {
  const store = new MemoryStore();
  const { records, ...journal } = notebook();
  const note = (record: JournalRecord) => {
    if (record.is === "suspect") throw new JournalFull();
    journal.note(record);
  };
  const discarded = new DiscardedUploads(store, { ...journal, note });
  discarded.suspect("key", Date.now());
  assert.deepEqual([...discarded.records], [], "a compaction has no room for it either");
  await store.createUpload("key");
  await discarded.finish();
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(replay(records).doomed.size, 0);
});

test("the keys to look for at the end are limited: the latest ones count", () => {
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(new MemoryStore(), journal);
  for (let n = 0; n < 1000; n++) discarded.suspect(`key-${n}`, n);
  const { suspects } = replay(discarded.records);
  assert.deepEqual(suspects, replay(records).suspects);
  assert.equal(suspects.size, 256);
  assert.equal(suspects.get("key-999")?.sinceMs, 999);
});

test("strays are not looked for while the same file is uploaded again", async () => {
  class LateStore extends MemoryStore {
    refusals = 1;
    override async abortStrays(key: string): Promise<void> {
      if (this.refusals-- > 0) throw new Failure("remote", "away");
      return super.abortStrays(key);
    }
  }
  const store = new LateStore();
  const { records, ...journal } = notebook();
  const discarded = new DiscardedUploads(store, journal);
  await discarded.discardStrays("key", Date.now());
  using use = discarded.use("key");
  const uploadId = await store.createUpload("key"); // the program tries again
  await discarded.finish();
  assert.equal(store.unfinishedUploads, 1, "the live upload is not a stray");
  assert.equal(replay(records).doomed.size, 1, "a successor looks for strays");
  await store.abortUpload("key", uploadId);
  use[Symbol.dispose]();
});
