import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { JournalRecord } from "./record.ts";

/** Large enough to be parsed at full speed; its text and its records are in memory at once. */
const PIECE_BYTES = 1 << 20;
const NEWLINE = 0x0a;

export function damaged(what: string): Failure {
  return new Failure("invalid", `the journal is damaged (${what}): the mount can't go on`);
}

/**
 * The records of an area, each one line of JSON, in pieces: a string has at most 512 Mi characters,
 * and a container with little memory can't hold all records twice. A newline inside of a record is
 * escaped, and no byte of a longer UTF-8 character equals one, so a piece can end at any newline.
 */
export function* readRecords(area: Buffer): Generator<JournalRecord, void, undefined> {
  let start = 0;
  while (start < area.length) {
    const end = endOfPiece(area, start);
    yield* parse(area.toString("utf8", start, end));
    start = end + 1;
  }
}

/** The newline behind the last whole record of a piece, or behind its only one if that is long. */
function endOfPiece(area: Buffer, start: number): number {
  const limit = Math.min(start + PIECE_BYTES, area.length) - 1;
  const last = area.lastIndexOf(NEWLINE, limit);
  const end = last >= start ? last : area.indexOf(NEWLINE, limit);
  if (end === -1) throw damaged("its last record");
  return end;
}

function parse(lines: string): JournalRecord[] {
  try {
    const records = JSON.parse(`[${lines.replaceAll("\n", ",")}]`) as (JournalRecord | null)[];
    if (records.every((record) => typeof record?.is === "string")) return records;
  } catch {
    // A line that is no JSON is as bad as one that is no record.
  }
  throw damaged("a record");
}
