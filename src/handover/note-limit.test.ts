import assert from "node:assert/strict";
import { test } from "node:test";
import { NoteLimit } from "./note-limit.ts";

/** How many of these go through, until one does not. */
function heard(limit: NoteLimit, startMs: number, everyMs: number, count: number): number {
  for (let said = 0; said < count; said += 1) {
    if (limit.isOver(startMs + said * everyMs)) return said;
  }
  return count;
}

test("an engine that dies as fast as one can start is heard of, for as long as it takes", () => {
  assert.equal(heard(new NoteLimit(), 1_000, 50, 10_000), 10_000);
});

test("a hundred at once are heard, then a few, and as many again only after a while", () => {
  const limit = new NoteLimit();
  assert.equal(heard(limit, 1_000, 0, 1_000), 100);
  assert.equal(heard(limit, 1_100, 0, 1_000), 1);
  assert.equal(heard(limit, 7_000, 0, 1_000), 100);
});

test("who says a little more than that, all the time, is cut off in the end", () => {
  const said = heard(new NoteLimit(), 1_000, 40, 10_000);
  assert.ok(said > 100 && said < 1_000, String(said));
});
