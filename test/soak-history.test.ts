import assert from "node:assert/strict";
import { test } from "node:test";
import { FileHistory } from "./engine/soak-history.ts";
import type { Effect } from "./engine/soak-history.ts";

const NO_FAILURES = { lost: [], repeated: [] };
/** A deletion without a known end, whose program was dead at 10. */
const DELETION: Effect = {
  version: undefined,
  lengths: [0, 0],
  begin: 0,
  end: Infinity,
  certain: true,
  doneAsking: 10,
};

test("a history takes as many openings of one file as an hour of soak makes", () => {
  const history = new FileHistory();
  history.add(DELETION);
  for (let n = 0; n < 300_000; n++) history.wasOpened(20 + n, 21 + n);
  assert.deepEqual(history.faults(NO_FAILURES), []);
});

test("an effect without an end is over when the first later opening is", () => {
  const written = { writer: "writer", number: 1, file: "file", sizeBytes: 5 };
  const history = new FileHistory();
  const lengths = [5, 5] as const;
  history.add({
    version: written,
    lengths,
    begin: 1,
    end: Infinity,
    certain: true,
    doneAsking: 10,
  });
  history.wasOpened(5, 12); // began before the program was dead
  history.wasOpened(20, 40);
  history.wasOpened(30, 35);
  const absentAt = (moment: number) => {
    history.saw({ who: "reader", begin: moment, end: moment, found: undefined });
    return history.faults(NO_FAILURES).length;
  };
  assert.equal(absentAt(11), 0);
  assert.equal(absentAt(34), 0);
  assert.equal(absentAt(36), 1);
});
