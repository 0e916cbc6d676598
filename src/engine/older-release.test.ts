import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { Journal, journalBytes } from "../journal/journal.ts";
import type { JournalRecord } from "../journal/record.ts";
import { replay } from "../journal/saved-state.ts";
import { Spool } from "../journal/spool.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";

const PAGE_BYTES = 4096;
const SEGMENT_HEADER_BYTES = 64;
const OPTIONS = { onFenced: () => assert.fail("fenced") };
const HANDLE = 1;
const USER = { pid: 1, owner: "0.1" };

interface Left {
  readonly text: string;
  /** Parts that S3 has, of this many bytes each. */
  readonly sent?: readonly number[];
}

/**
 * An open file as an engine of a release before writers were entered leaves it: a fill level in
 * the first word, behind it bytes of another file that was at this place before.
 */
async function resume({ text, sent = [] }: Left) {
  const store = new MemoryStore();
  const journalMemory = Buffer.alloc(journalBytes(1 << 16));
  const spoolMemory = Buffer.alloc(16 * PAGE_BYTES, 0x41);
  spoolMemory.writeUInt32LE(text.length, 0);
  spoolMemory.write(text, SEGMENT_HEADER_BYTES);
  const former = Journal.begin(journalMemory, OPTIONS);
  const uploadId = await store.createUpload("f");
  const records: JournalRecord[] = [
    { is: "inode", id: 2, path: "f", local: true, refs: 1 },
    { is: "open", handle: HANDLE, id: 2, how: "write", pid: 1 },
    { is: "creating", handle: HANDLE, nonce: "nonce", sinceMs: 1 },
    { is: "created", handle: HANDLE, uploadId },
  ];
  for (const [index, size] of sent.entries()) {
    const part = index + 1;
    const { etag } = await store.uploadPart("f", uploadId, part, Buffer.alloc(size, "s"));
    records.push({ is: "sent", handle: HANDLE, part, etag, size });
  }
  const part = sent.length + 1;
  records.push({ is: "segment", handle: HANDLE, part, at: 0, size: 4000 });
  for (const record of records) former.note(record);
  former.commit();
  const { journal, records: found } = Journal.resume(journalMemory, OPTIONS);
  const spool = new Spool(spoolMemory, { limitBytes: spoolMemory.length });
  const config = { ...TEST_CONFIG, writePartSizeBytes: 4000 };
  const engine = new Engine(store, config, { journal, spool, saved: replay(found) });
  journal.state = () => engine.records();
  const writeAgain = async (offsetBytes: number, data: string) =>
    engine.write({
      handle: HANDLE,
      offsetBytes,
      data: Buffer.from(data),
      user: USER,
      unique: "1.7",
      again: true,
    });
  return { store, engine, writeAgain };
}

const isInvalid = (error: unknown) => error instanceof PosixFailure && error.code === "EINVAL";

test("bytes that an older release has taken are in the object", async () => {
  const { store, engine } = await resume({ text: "old bytes" });
  await engine.sync(HANDLE);
  assert.equal(String(store.body("f")), "old bytes");
});

test("a write that an older release took and did not answer is not taken twice", async () => {
  const { store, engine, writeAgain } = await resume({ text: "old bytes" });
  assert.equal(await writeAgain(4, "bytes"), 5);
  await engine.flush(HANDLE, USER);
  assert.equal(String(store.body("f")), "old bytes");
});

test("a write of which an older release took a part is taken from there on", async () => {
  const { store, engine, writeAgain } = await resume({ text: "old by" });
  assert.equal(await writeAgain(4, "bytes"), 5);
  await engine.flush(HANDLE, USER);
  assert.equal(String(store.body("f")), "old bytes");
});

test("a write whose first bytes an older release has sent in a part is not taken twice", async () => {
  const { store, engine, writeAgain } = await resume({ text: "old bytes", sent: [8, 8] });
  assert.equal(await writeAgain(12, "ssssold bytes"), 13);
  await engine.flush(HANDLE, USER);
  assert.equal(String(store.body("f")), `${"s".repeat(16)}old bytes`);
});

test("a backward write that an older release has not taken is refused", async () => {
  const { engine, writeAgain } = await resume({ text: "old bytes" });
  await assert.rejects(writeAgain(4, "other"), isInvalid);
  await assert.rejects(engine.flush(HANDLE, USER), isInvalid);
});
