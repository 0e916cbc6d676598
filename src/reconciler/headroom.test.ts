import assert from "node:assert/strict";
import { test } from "node:test";
import { HEADROOM_GATE, LABEL } from "../volume/names.ts";
import type { Volume, Workload } from "./facts.ts";
import { POD_POLICY } from "../volume/pod-settings.ts";
import { decideHeadroom, headroomPodFor, headroomPodOf, ungatedOf } from "./headroom.ts";
import type { BoundClaim, HeadroomPod } from "./headroom.ts";
import { TEST_WORKLOAD } from "./test-facts.ts";

const nowMs = 1_000_000;
const workload: Workload = {
  ...TEST_WORKLOAD,
  nodeName: "",
  createdMs: nowMs - 60_000,
  gated: true,
};
const volume = (name: string): Volume => ({
  name,
  uid: `${name}-uid`,
  volumeId: name,
  mountOptions: [],
  attributes: { bucketName: "b", mountpointContainerResourcesRequestsCpu: "400m" },
  claimKey: "ns/c",
  claimUid: "c",
});
const OURS: BoundClaim = { volumeName: "a", volume: volume("a"), served: false };
const SERVED: BoundClaim = { ...OURS, served: true };
const OTHERS: BoundClaim = { volumeName: "other", volume: undefined, served: false };
const UNSEEN: BoundClaim = { ...OURS, volume: undefined };
const UNBOUND: BoundClaim = { volumeName: "", volume: undefined, served: false };
const pod: HeadroomPod = {
  name: "hr-a",
  uid: "h",
  workloadUid: "w1",
  workloadPlace: { namespace: "ns", name: "app" },
  volumeLabel: "a",
};
const free: Partial<Workload> = { gated: false, hadGate: true };

// prettier-ignore
const cases: [name: string, workload: Partial<Workload> | null, claims: BoundClaim[], pods: HeadroomPod[], want: string[]][] = [
  ["headroom, then the gate",            {},                        [OURS],          [],    ["create-headroom", "lift-gate"]],
  ["one for each volume of ours",        {},                        [OURS, OTHERS, { ...OURS, volumeName: "b", volume: volume("b") }], [], ["create-headroom", "create-headroom", "lift-gate"]],
  ["a crash left it: only the gate",     {},                        [OURS],          [pod], ["lift-gate"]],
  ["no volume of ours: only the gate",   {},                        [OTHERS],        [],    ["lift-gate"]],
  ["a claim may still be bound",         { createdMs: nowMs - 1 },  [UNBOUND],       [],    ["look-again"]],
  ["but not for ever",                   {},                        [UNBOUND, OURS], [],    ["create-headroom", "lift-gate"]],
  ["its volume may not be known yet",    { createdMs: nowMs - 1 },  [OTHERS],        [],    ["look-again"]],
  ["nothing is waited for in vain",      { createdMs: nowMs + 9 },  [OURS],          [],    ["create-headroom", "lift-gate"]],
  ["it stays while the pod starts",      free,                      [OURS],          [pod], []],
  ["and until its volume is known",      free,                      [UNSEEN],        [pod], []],
  ["and until its claim is",             free,                      [UNBOUND],       [pod], []],
  ["it goes when the pod runs",          free,                      [SERVED],        [pod], ["delete-headroom"]],
  ["it goes when nobody needs it",       free,                      [OTHERS],        [pod], ["delete-headroom"]],
  ["it goes with the workload",          null,                      [],              [pod], ["delete-headroom"]],
  ["and with one that ends",             { ...free, ended: true },  [OURS],          [pod], ["delete-headroom"]],
  ["a gated one that leaves stays shut", { terminating: true },     [OURS],          [],    []],
];
for (const [name, fields, claims, pods, want] of cases) {
  test(`headroom: ${name}`, () => {
    const subject = fields === null ? undefined : { ...workload, ...fields };
    const actions = decideHeadroom({ workload: subject, claims, pods, nowMs });
    assert.deepEqual(
      actions.map((action) => action.do),
      want,
    );
  });
}

test("headroom asks for what the Mountpoint Pod will ask for, beside the workload", () => {
  const settings = {
    namespace: "mount-s3",
    image: "pause",
    imagePullPolicy: "Never",
    imagePullSecrets: [],
    priorityClassName: "mount-s3-headroom",
    userId: 1000,
    policy: POD_POLICY,
  };
  const made = headroomPodFor(workload, volume("a"), settings);
  const name = made.metadata?.name ?? "";
  assert.deepEqual(headroomPodOf(made), { ...pod, name, uid: "" }, "it tells whose it is");
  const { spec } = made;
  const requests = { cpu: "400m", memory: "64Mi" };
  assert.deepEqual(spec?.containers[0]?.resources, { requests, limits: {} });
  const [term] = spec.affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
  assert.deepEqual(term?.labelSelector?.matchLabels, { [LABEL.headroomForWorkload]: "w1" });
  assert.deepEqual(term.namespaces, ["ns"]);
});

test("the gate goes, other gates stay", () => {
  const gates = [{ name: "other" }, { name: HEADROOM_GATE }];
  const metadata = { uid: "w1", resourceVersion: "7" };
  const spec = { containers: [], schedulingGates: gates };
  assert.deepEqual(ungatedOf({ metadata, spec }), {
    metadata: { uid: "w1", resourceVersion: "7", labels: { [LABEL.headroomForWorkload]: "w1" } },
    spec: { schedulingGates: [{ name: "other" }] },
  });
  assert.equal(ungatedOf({ metadata, spec: { containers: [] } }), undefined);
});
