import assert from "node:assert/strict";
import { test } from "node:test";
import type { Step } from "./preparations.ts";
import { PUBLISH_TIMES, earlyAnswer } from "./publish-wait.ts";

const unassigned = (cause?: string): Step => ({
  waitsFor: "MountpointS3PodAttachment",
  isAssigned: false,
  cause: () => cause,
});
const assigned = (cause?: string): Step => ({
  waitsFor: "Mountpoint Pod mp-1 to serve",
  isAssigned: true,
  cause: () => cause,
});
const NO_LIST = "Failed to list MountpointS3PodAttachments: no such kind";
const SERVES_LATE = /^Timed out waiting for Mountpoint Pod mp-1 to serve$/;
const UNASSIGNED_LATE = /^Timed out waiting for MountpointS3PodAttachment: is the controller/;

// prettier-ignore
const TABLE: [waitedMs: number, step: Step, finished: string | undefined, answer: RegExp | undefined][] = [
  [ 5_000, unassigned(),            undefined, undefined],
  [ 8_000, unassigned(),            undefined, UNASSIGNED_LATE],
  [ 2_900, unassigned(NO_LIST),     undefined, undefined],
  [ 3_000, unassigned(NO_LIST),     undefined, /^Failed to list MountpointS3PodAttachments: no such kind$/],
  [29_000, assigned(),              undefined, undefined],
  [30_000, assigned(),              undefined, SERVES_LATE],
  [ 2_900, assigned("no room"),     undefined, undefined],
  [ 3_000, assigned("no room"),     undefined, /^Timed out waiting for Mountpoint Pod mp-1 to serve: no room$/],
  [   900, assigned(),              "a-uid",   undefined],
  [ 1_000, assigned(),              "a-uid",   /^still waiting for Mountpoint Pod mp-1 to serve: the volume of pod a-uid is unmounted first$/],
  [ 1_000, unassigned(),            "a-uid",   /^still waiting for MountpointS3PodAttachment: /],
  [ 3_000, assigned("no room"),     "a-uid",   /no room/],
];

for (const [waitedMs, step, finished, answer] of TABLE) {
  const who = `${step.isAssigned ? "assigned" : "unassigned"}, cause ${step.cause() ?? "unknown"}`;
  const does = answer === undefined ? "waits on" : "answers";
  const asked = finished === undefined ? "" : ", a pod to unmount";
  test(`after ${waitedMs} ms (${who}${asked}) a publish ${does}`, () => {
    const given = earlyAnswer(step, waitedMs, PUBLISH_TIMES, () => finished);
    if (answer === undefined) assert.equal(given, undefined);
    else assert.match(given ?? "", answer);
  });
}
