import assert from "node:assert/strict";
import { test } from "node:test";
import { Pace } from "./pace.ts";

const MIB = 1 << 20;

/** Laps of 8 MiB of so many milliseconds each. */
function afterLaps(pace: Pace, laps: number, lapMs: number, isFull = false): boolean {
  for (let n = 1; n <= laps; n++) {
    pace.read(8 * MIB, isFull);
    pace.endLap(n * lapMs);
  }
  return pace.isOutpaced;
}

// oxfmt-ignore
const CASES: [string, { expected: boolean; laps: number; lapMs: number; isFull?: boolean }, boolean][] = [
  ["is outpaced by who has all of it ready",         { expected: false, laps: 1, lapMs: 1000, isFull: true }, true],
  ["is not, as long as it waits",                    { expected: false, laps: 9, lapMs: 1 },                  false],
  ["may be expected to be, and show it by its rate", { expected: true,  laps: 9, lapMs: 20 },                 true],
  ["is not expected to be by so low a rate",         { expected: true,  laps: 3, lapMs: 40 },                 false],
  ["is not judged by one slow lap",                  { expected: true,  laps: 2, lapMs: 40 },                 true],
  ["is judged by one that is very slow",             { expected: true,  laps: 2, lapMs: 90 },                 false],
  ["is not judged by its first bytes",               { expected: true,  laps: 1, lapMs: 4000 },               true],
  ["is in no hurry, and would let a GET wait",       { expected: true,  laps: 1, lapMs: 5001, isFull: true }, false],
];

test("it is the rate that tells who is in no hurry, however long a lap is", () => {
  for (const lapMib of [2, 8, 16, 32]) {
    for (const [mibPerSecond, outpaced] of [
      [2, true],
      [1.5, false],
    ] as const) {
      const pace = new Pace(true, 0);
      pace.read(lapMib * MIB, true);
      pace.endLap((lapMib / mibPerSecond) * 1000);
      assert.equal(pace.isOutpaced, outpaced, `${lapMib} MiB at ${mibPerSecond} MiB/s`);
    }
  }
});

for (const [name, { expected, laps, lapMs, isFull }, outpaced] of CASES) {
  test(`a reader ${name}`, () => {
    assert.equal(afterLaps(new Pace(expected, 0), laps, lapMs, isFull), outpaced);
  });
}
