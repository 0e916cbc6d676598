import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { guessEnd } from "./page-guess.ts";

// oxfmt-ignore
const CASES: [string, { first: string; last: string; count: number }, string | undefined][] = [
  ["a number",                        { first: "a-0000",       last: "a-0999",       count: 1000 }, "a-1999"],
  ["a number with something behind",  { first: "0001.jpg",     last: "0100.jpg",     count: 100 },  "0200.jpg"],
  ["a letter before the number",      { first: "image0000",    last: "image0009",    count: 10 },   "image0019"],
  ["every second number",             { first: "n000",         last: "n018",         count: 10 },   "n036"],
  ["different things behind numbers", { first: "n000-x",       last: "n009-y",       count: 10 },   "n018"],
  ["a hash",                          { first: "00a1",         last: "0fff",         count: 16 },   "1ebf"],
  ["the last numbers of their width", { first: "n50",          last: "n99",          count: 50 },   undefined],
  ["numbers of different widths",     { first: "n8",           last: "n10",          count: 3 },    undefined],
  ["words",                           { first: "monday",       last: "sunday",       count: 2 },    undefined],
  ["one name",                        { first: "n1",           last: "n1",           count: 1 },    undefined],
];

for (const [name, ends, end] of CASES) {
  test(`${name}: where the next page ends`, () => assert.equal(guessEnd(ends, 1)?.name, end));
}

test("names that are numbered without a hole are foretold exactly, however far", () => {
  const property = fc.property(
    fc.record({
      stem: fc.constantFrom("", "part-", "2026-11-16/", "e", "ff"),
      from: fc.nat({ max: 1_000_000 }),
      count: fc.integer({ min: 2, max: 1000 }),
      pages: fc.integer({ min: 1, max: 5 }),
      rest: fc.constantFrom("", ".log", "-0", "/"),
    }),
    ({ stem, from, count, pages, rest }) => {
      const nameAt = (index: number) => `${stem}${String(from + index).padStart(8, "0")}${rest}`;
      const guess = guessEnd({ first: nameAt(0), last: nameAt(count - 1), count }, pages);
      assert.deepEqual(guess, { name: nameAt(count * (pages + 1) - 1), isSure: true });
    },
  );
  fc.assert(property);
});
