import assert from "node:assert/strict";
import { test } from "node:test";
import { LastWords } from "./last-words.ts";

function lastOf(...chunks: readonly Uint8Array[]): string {
  const words = new LastWords();
  for (const chunk of chunks) words.add(Buffer.from(chunk));
  return words.text;
}

test("the end of what was said, as one line, however it came", () => {
  const said = Buffer.from("Error: no bucket\n\nCaused by:\n    0: é\n");
  const bytes = Array.from(said, (byte) => Uint8Array.of(byte));
  assert.equal(lastOf(...bytes), "Error: no bucket Caused by: 0: é");
  assert.equal(lastOf(), "");
  const long = lastOf(said, Buffer.from(`${"x".repeat(100_000)} the end`));
  assert.equal(long.length, 800);
  assert.match(long, /^…x+ the end$/);
});
