import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim } from "./facts.ts";
import { isOurOwnMark } from "./run.ts";
import { CLAIM } from "./test-objects.ts";

const note = { volume: "csi-s3-x", secret: undefined };
const HELD: Claim = { ...CLAIM, isHeld: true, note, resourceVersion: "2" };
const MOVED: Claim = { ...HELD, note: { ...note, volume: "other-x" }, resourceVersion: "3" };

// prettier-ignore
const CHANGES: [what: string, before: Claim | undefined, now: Claim | undefined, ours: boolean][] = [
  ["held",                     CLAIM,     HELD,                                      true],
  ["held elsewhere",           HELD,      MOVED,                                     true],
  ["let go",                   HELD,      CLAIM,                                     true],
  ["new",                      undefined, CLAIM,                                     false],
  ["gone",                     HELD,      undefined,                                 false],
  ["held, and being deleted",  CLAIM,     { ...HELD, isTerminating: true },          false],
  ["let go, and another node", HELD,      { ...CLAIM, selectedNode: "n" },           false],
  ["let go, and annotated",    HELD,      { ...CLAIM, annotations: { team: "a" } },  false],
  ["held, and bound",          HELD,      { ...HELD, isBound: true, resourceVersion: "3" }, false],
  ["nothing",                  CLAIM,     { ...CLAIM },                              false],
];

for (const [what, before, now, ours] of CHANGES) {
  test(`a claim that is ${what} ${ours ? "is our own doing" : "is looked at"}`, () => {
    assert.equal(isOurOwnMark(now, before), ours);
  });
}
