import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { LineBuffer } from "./line-buffer.ts";

const LENGTH_MAX = 65_536;

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  const starts = [0, ...ends];
  return starts.map((start, index) => bytes.subarray(start, starts[index + 1]));
}

test("lines arrive whole, however the stream is cut", () => {
  const line = fc.string({ unit: "grapheme", maxLength: 50 }).map((s) => s.replaceAll("\n", ""));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat({ max: 5000 })), (lines, cuts) => {
      const stream = Buffer.from(lines.map((one) => `${one}\n`).join(""));
      const buffer = new LineBuffer(LENGTH_MAX);
      const got = chunksOf(stream, cuts).flatMap((chunk) => [...buffer.add(chunk)]);
      assert.deepEqual(got, lines);
    }),
    { examples: [[["ü€😀"], [1, 3, 4, 6, 8]]] },
  );
});

test("a line that is too long is refused, with or without an end", () => {
  const long = "x".repeat(LENGTH_MAX);
  assert.deepEqual([...new LineBuffer(LENGTH_MAX).add(Buffer.from(`${long}\n`))], [long]);
  for (const text of [`${long}x`, `${long}x\n`, `${long}x\n{}\n`]) {
    assert.throws(() => [...new LineBuffer(LENGTH_MAX).add(Buffer.from(text))], {
      kind: "invalid",
    });
  }
  const buffer = new LineBuffer(LENGTH_MAX);
  assert.deepEqual([...buffer.add(Buffer.from(long))], []);
  assert.throws(() => [...buffer.add(Buffer.from("xx"))], /more than 65536 bytes/);
});
