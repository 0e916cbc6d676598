import assert from "node:assert/strict";
import { test } from "node:test";
import { mountIdOf } from "../volume/engine.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import { lineageOf, successorWaitMs } from "./succession.ts";
import type { Lost } from "./succession.ts";

const LABEL_VALUE_CHARACTERS_MAX = 63;
const NAME = mountpointPodNameOf("w1", "pv");
const nowMs = Date.UTC(2026, 0, 1);
const lost = (attachmentTime: number, mountId = NAME): Lost => ({
  name: NAME,
  pod: undefined,
  mountId,
  entries: [{ workloadPodUID: "w2", attachmentTime: new Date(attachmentTime).toISOString() }],
  listedUids: ["w2"],
  remembered: undefined,
});

test("who came a moment ago waits, whoever wrote down when", () => {
  assert.equal(successorWaitMs(lost(nowMs - 400), 1, nowMs), 1_600);
});

test("a time to come is another clock's: nobody waits until then", () => {
  assert.equal(successorWaitMs(lost(nowMs + 3_600_000), 1, nowMs), 0);
});

for (const engine of ["s3csi", "mount-s3"] as const) {
  test(`${engine}: a pod of which nobody knows for whom it was, goes on in its own name`, () => {
    const lineage = lineageOf(lost(nowMs, mountIdOf(NAME, engine)), "pv");
    assert.deepEqual(lineage, { workloadUid: NAME, generation: 0 });
    assert.ok(lineage.workloadUid.length <= LABEL_VALUE_CHARACTERS_MAX); // as it will be a label
  });
}
