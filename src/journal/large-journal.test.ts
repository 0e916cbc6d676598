import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { Journal, journalBytes } from "./journal.ts";
import type { JournalRecord } from "./record.ts";

const MIB = 1 << 20;
/** V8 makes no string of more characters than 512 Mi. */
const STRING_BYTES_MAX = 512 * MIB;
const HEADER_BYTES = 4096;
const TAIL_AT = 20;
const OPTIONS = { onFenced: () => assert.fail("fenced") };
/** Long ones are made and read fast. */
const LONG = "x".repeat(MIB);
const RECORDS: readonly JournalRecord[] = Array.from({ length: 16 }, (_, n) => {
  return { is: "inode", id: n + 2, path: n === 7 ? `ä€𝄞${n}` : `${LONG}${n}`, refs: 1 };
});

/** Repeats records until there are more bytes than a string can have. */
function largeJournal() {
  const memory = Buffer.alloc(journalBytes(STRING_BYTES_MAX + 32 * MIB));
  const journal = Journal.begin(memory, OPTIONS);
  for (const record of RECORDS) journal.note(record);
  journal.commit();
  const sizeBytes = journal.usedBytes;
  const repeats = Math.ceil((STRING_BYTES_MAX + MIB) / sizeBytes);
  for (let n = 1; n < repeats; n++) {
    memory.copy(memory, HEADER_BYTES + n * sizeBytes, HEADER_BYTES, HEADER_BYTES + sizeBytes);
  }
  memory.writeInt32LE(repeats * sizeBytes, TAIL_AT);
  return { memory, repeats, usedBytes: repeats * sizeBytes };
}

test("a journal that is larger than any string is resumed, and damage at its end is found", () => {
  const { memory, repeats, usedBytes } = largeJournal();
  assert(usedBytes > STRING_BYTES_MAX);
  let count = 0;
  for (const record of Journal.resume(memory, OPTIONS).records) {
    const wanted = RECORDS[count % RECORDS.length];
    // By its fields: the message of deepEqual would be as long as the path.
    assert(record.is === "inode" && wanted?.is === "inode");
    assert(record.id === wanted.id && record.path === wanted.path, `record ${count}`);
    count += 1;
  }
  assert.equal(count, repeats * RECORDS.length);

  memory.write('"', HEADER_BYTES + usedBytes - 100);
  assert.throws(
    () => {
      for (const record of Journal.resume(memory, OPTIONS).records) assert(record.is === "inode");
    },
    (error) => error instanceof Failure && /damaged \(a record\)/.test(error.message),
  );
});
