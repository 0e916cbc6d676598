import assert from "node:assert/strict";
import { test } from "node:test";
import {
  isSameStatus,
  refusedStatusOf,
  staleReports,
  statusOf,
  troublesOf,
} from "./attachment-status.ts";
import type { ControllerStatus } from "./attachment-status.ts";
import { decide } from "./decide.ts";
import type { Observed } from "./observed.ts";
import type { MountpointPod, NodeFacts } from "./facts.ts";
import { TEST_POD, TEST_WORKLOAD } from "./test-facts.ts";

const key = {
  nodeName: "n1",
  persistentVolumeName: "pv",
  volumeID: "v",
  mountOptions: "",
  workloadFSGroup: "",
  authenticationSource: "driver",
  workloadNamespace: "",
  workloadServiceAccountName: "",
};
const NOW_MS = Date.parse("2026-01-01T12:00:00Z");
/** Of a pod that takes no longer than others to start. */
const young = { started: false, createdMs: NOW_MS - 14_999 };
const overdue = { started: false, createdMs: NOW_MS - 15_000 };
const UP: NodeFacts = { name: "n1", ready: true, ending: false };

function seen(pod: Partial<MountpointPod> | null, stored?: ControllerStatus): Observed {
  const attachmentTime = "2026-01-01T11:00:00Z";
  const mountpointS3PodAttachments = { "mp-1": [{ workloadPodUID: "w1", attachmentTime }] };
  const spec = { ...key, mountpointS3PodAttachments };
  const status = stored && { status: stored };
  return {
    name: "s3pa-1",
    key,
    attachment: { name: "s3pa-1", uid: "a", resourceVersion: "1", spec, ...status },
    attributes: {},
    remembered: new Map(),
    bound: new Set(),
    outdated: new Set(),
    foreign: new Set(),
    lastMounts: new Map(),
    wanting: [TEST_WORKLOAD],
    gone: new Set(),
    leaving: new Set(),
    pods: new Map(pod === null ? [] : [["mp-1", { ...TEST_POD, ...pod }]]),
    node: UP,
    driverVersion: "1",
    engine: "s3csi",
    nowMs: NOW_MS,
  };
}

const ROOM = "0/3 nodes are available: 1 Insufficient memory";

// prettier-ignore
const cases: [name: string, pod: Partial<MountpointPod> | null, phase: string, ready: string, message: RegExp][] = [
  ["all runs",               {},                                                   "Mounted",    "True",  /^$/],
  ["it starts",              young,                                                "Pending",    "False", /^$/],
  ["it does not start",      overdue,                                              "Pending",    "False", /mp-1 has not started on node n1 for 15 s; its events say why: kubectl get events .*=mp-1$/],
  ["no room",                { started: false, scheduled: false, unschedulable: ROOM }, "Pending", "False", /mp-1 finds no room on node n1: .*Insufficient memory/],
  ["no image",               { started: false, cannotStart: "image x cannot be pulled" }, "Pending", "False", /mp-1 cannot start on node n1: image x cannot be pulled/],
  ["one of mount-s3 starts", { ...young, mountId: "mp-1.mount-s3" },               "Pending",    "False", /^$/],
  ["a successor starts",     { ...young, mountId: "mp-0" },                        "Recovering", "False", /^$/],
  ["a successor is overdue", { ...overdue, mountId: "mp-0" },                      "Recovering", "False", /mp-1 has not started/],
  ["it ended",               { finished: true },                                   "Recovering", "False", /mp-1 is lost: it has ended/],
  ["it is being deleted",    { terminating: true },                                "Recovering", "False", /it is being deleted/],
  ["it crashes",             { backingOff: true },                                 "Recovering", "False", /it crashes again and again/],
  ["it is told to unmount",  { needsUnmount: true },                               "Recovering", "False", /it was told to unmount/],
  ["it is gone",             null,                                                 "Recovering", "False", /it was deleted/],
];
for (const [name, pod, phase, ready, message] of cases) {
  test(`status: ${name}`, () => {
    const status = statusOf(seen(pod));
    const [first, second] = status.conditions;
    assert.equal(status.phase, phase);
    assert.deepEqual([first?.type, first?.status], ["Ready", ready]);
    assert.match(first?.message ?? "", message);
    const degraded = phase === "Recovering" ? "True" : "False";
    assert.deepEqual([second?.type, second?.status], ["Degraded", degraded]);
  });
}

test("a lost pod on a node that is gone is a failure", () => {
  assert.equal(statusOf({ ...seen(null), node: undefined }).phase, "Failed");
});

test("a status is written when it says something new, and keeps the time of the last change", () => {
  const first = statusOf(seen({}));
  assert(!isSameStatus(undefined, first));
  assert(isSameStatus(undefined, statusOf(seen(young))), "pending is not worth it");
  assert(isSameStatus(first, statusOf(seen({}))));
  const later = { ...seen({}, first), nowMs: Date.parse("2026-01-02T00:00:00Z") };
  assert.deepEqual(statusOf(later), first);
  assert.deepEqual(decide(later), []);
  const lost = statusOf({ ...later, pods: new Map() });
  assert(!isSameStatus(first, lost));
  assert.equal(lost.conditions[0]?.lastTransitionTime, "2026-01-02T00:00:00.000Z");
  assert.deepEqual(
    decide(seen({})).map((action) => action.do),
    ["write-status"],
  );
});

test("a workload hears why its Mountpoint Pod has no place", () => {
  const [trouble, ...others] = troublesOf(seen({ scheduled: false, unschedulable: ROOM }));
  assert.equal(trouble?.workload.uid, "w1");
  assert.equal(trouble.reason, "MountpointPodUnschedulable");
  assert.match(trouble.note, /mp-1 finds no room on node n1: .*Insufficient memory/);
  assert.equal(others.length, 0);
  assert.deepEqual(troublesOf(seen({})), []);
});

test("a workload hears why its Mountpoint Pod cannot start", () => {
  const [trouble] = troublesOf(seen({ started: false, cannotStart: "image x cannot be pulled" }));
  assert.equal(trouble?.reason, "MountpointPodCannotStart");
  assert.equal(
    trouble.note,
    "Mountpoint Pod mp-1 cannot start on node n1: image x cannot be pulled",
  );
});

test("a workload hears that its Mountpoint Pod does not start", () => {
  const [trouble] = troublesOf(seen(overdue));
  assert.equal(trouble?.reason, "MountpointPodNotStarted");
  assert.deepEqual(troublesOf(seen(young)), []);
  assert.deepEqual(decide(seen(young)), [{ do: "look-again", afterMs: 1 }]);
});

test("an attachment tells what the API server refuses", () => {
  const words = "pods are forbidden: exceeded quota";
  for (const [pod, phase] of [
    [null, "Recovering"],
    [{}, "Mounted"],
  ] as const) {
    const { phase: told, conditions } = refusedStatusOf(seen(pod), words);
    assert.equal(told, phase);
    for (const { reason, message } of conditions) {
      assert.deepEqual([reason, message], ["FailedMountpointPod", words]);
    }
  }
});

// prettier-ignore
const reports: [name: string, reported: string[], stale: string[]][] = [
  ["nothing was told",                             [],                         []],
  ["of the one that serves",                       ["mp-1"],                   []],
  ["of those before it too",                       ["mp-0", "mp-1", "mp-x"],   ["mp-0", "mp-x"]],
  ["of one that is gone: an engine was lost here", ["mp-0"],                   []],
  ["of two that are gone",                         ["mp-0", "mp-x"],           ["mp-x"]],
];
for (const [name, reported, stale] of reports) {
  test(`reports of the node: ${name}`, () => {
    const { attachment, ...rest } = seen({}, statusOf(seen({})));
    assert(attachment !== undefined);
    const now = { ...rest, attachment: { ...attachment, reported } };
    assert.deepEqual(staleReports(now), stale);
    const actions = decide(now).map((action) => action.do);
    assert.deepEqual(actions, stale.length === 0 ? [] : ["write-status"]);
  });
}
