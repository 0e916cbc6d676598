import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeNode, Pod } from "../kube/resource.ts";
import { ANNOTATION, LABEL } from "../volume/names.ts";
import { mountpointPodOf, nodeOf, workloadOf } from "./facts.ts";

const ready = (status: string): NonNullable<KubeNode["status"]> => ({
  conditions: [
    { type: "MemoryPressure", status: "True" },
    { type: "Ready", status },
  ],
});
const taints = (key: string) => ({ taints: [{ key, effect: "NoExecute" }] });
const gone = { name: "n", deletionTimestamp: "2026-01-01T00:00:00Z" };

// prettier-ignore
const nodes: [name: string, node: KubeNode, ready: boolean, ending: boolean][] = [
  ["a node that is up",           { status: ready("True") },                                                                  true,  false],
  ["one that does not answer",    { status: ready("Unknown") },                                                               false, false],
  ["one that has just come",      {},                                                                                         false, false],
  ["one that is cordoned",        { spec: taints("node.kubernetes.io/unschedulable"), status: ready("True") },                true,  false],
  ["one that is switched off",    { spec: taints("node.cloudprovider.kubernetes.io/shutdown"), status: ready("Unknown") },    false, true],
  ["one that an admin gave up",   { spec: taints("node.kubernetes.io/out-of-service"), status: ready("Unknown") },            false, true],
  ["one that is being deleted",   { metadata: gone, status: ready("True") },                                                  true,  true],
];
for (const [name, node, isReady, ending] of nodes) {
  test(`node: ${name}`, () => {
    const facts = nodeOf({ metadata: { name: "n" }, ...node });
    assert.deepEqual(facts, { name: "n", ready: isReady, ending });
  });
}

const factsOf = (annotations: Record<string, string>, status: Pod["status"] = {}) =>
  mountpointPodOf({
    metadata: { name: "mp-1", annotations: { [ANNOTATION.attachment]: "s3pa-1", ...annotations } },
    status,
  });
const container = { name: "mountpoint", ready: false, restartCount: 1, image: "", imageID: "" };
const waiting = (reason: string) => ({
  phase: "Running",
  containerStatuses: [{ ...container, state: { waiting: { reason } } }],
});

test("a Mountpoint Pod serves its own mount unless it is told another", () => {
  assert.equal(factsOf({})?.mountId, "mp-1");
  assert.equal(factsOf({ [ANNOTATION.mountId]: "mp-0" })?.mountId, "mp-0");
});

test("nothing is younger than the news of it, whatever the API server's clock says", () => {
  const creationTimestamp = new Date(Date.now() + 3_600_000).toISOString();
  const annotations = { [ANNOTATION.attachment]: "s3pa-1" };
  const { createdMs = NaN } =
    mountpointPodOf({ metadata: { name: "mp-1", annotations, creationTimestamp } }) ?? {};
  assert.ok(createdMs <= Date.now(), String(createdMs));
});

test("the label of a lifted gate counts for the workload that it names", () => {
  const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "c" } }];
  const spec = { volumes, containers: [] };
  const hadGate = (uid: string) => {
    const labels = { [LABEL.headroomForWorkload]: uid };
    return workloadOf({ metadata: { name: "w", uid: "w1", labels }, spec })?.hadGate;
  };
  assert.equal(hadGate("w1"), true);
  assert.equal(hadGate("w0"), false); // copied with the rest of a manifest
});

test("a deleted Mountpoint Pod should be gone soon after its grace", () => {
  const annotations = { [ANNOTATION.attachment]: "s3pa-1" };
  const deletionTimestamp = "2026-01-01T12:00:00Z";
  const facts = mountpointPodOf({ metadata: { name: "mp-1", annotations, deletionTimestamp } });
  assert.deepEqual([facts?.terminating, facts?.goneByMs], [true, Date.UTC(2026, 0, 1, 12, 0, 10)]);
  assert.equal(factsOf({})?.goneByMs, undefined);
});

const running = { state: { running: { startedAt: "2026-01-01T12:00:00Z" } } };
const crashing = { state: { waiting: { reason: "CrashLoopBackOff" } } };
const sandbox = (status: string) => [{ type: "PodReadyToStartContainers", status }];
// prettier-ignore
const startedCases: [name: string, status: object | undefined, started: boolean][] = [
  ["a pod that nobody has looked at",        undefined,                                                                 false],
  ["one that waits for its volumes",         { phase: "Pending", conditions: sandbox("False") },                        false],
  ["one with a sandbox",                     { phase: "Pending", conditions: sandbox("True") },                         true],
  ["one that crashes again and again",       { phase: "Running", conditions: sandbox("True"), containerStatuses: [crashing] }, true],
  ["one whose node has rebooted",            { phase: "Running", conditions: sandbox("False"), containerStatuses: [running] }, false],
  ["by an old kubelet, one that runs",       { phase: "Running", containerStatuses: [crashing, running] },              true],
  ["by an old kubelet, one that initialises", { phase: "Pending", initContainerStatuses: [running] },                   true],
  ["by an old kubelet, one that waits",      { phase: "Pending", containerStatuses: [crashing] },                       false],
];
for (const [name, status, started] of startedCases) {
  test(`volumes are known to be published: ${name}`, () => {
    const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "c" } }];
    const spec = { volumes, containers: [] };
    const facts = workloadOf({
      metadata: { name: "w" },
      spec,
      ...(status && { status }),
    });
    assert.equal(facts?.started, started);
  });
}

const ended = (restartCount: number, exitCode: number) => ({
  phase: "Running",
  containerStatuses: [{ name: "mountpoint", restartCount, state: { terminated: { exitCode } } }],
});

test("who fails for the second time will wait: known before the kubelet says so", () => {
  assert.equal(factsOf({}, ended(1, 137) as never)?.backingOff, true);
  assert.equal(factsOf({}, ended(0, 137) as never)?.backingOff, false);
  assert.equal(factsOf({}, ended(1, 0) as never)?.backingOff, false, "it has finished");
});

test("only the kubelet's back-off is a crash loop", () => {
  assert.equal(factsOf({}, waiting("CrashLoopBackOff"))?.backingOff, true);
  assert.equal(factsOf({}, waiting("ImagePullBackOff"))?.backingOff, false);
  assert.equal(factsOf({}, { phase: "Running" })?.backingOff, false);
});

test("a pod that went with its node is told from one that failed", () => {
  assert.equal(factsOf({}, { phase: "Failed", reason: "Terminated" })?.shutDown, true);
  assert.equal(factsOf({}, { phase: "Failed", reason: "NodeShutdown" })?.shutDown, true);
  assert.equal(factsOf({}, { phase: "Failed", reason: "Evicted" })?.shutDown, false);
});

const IMAGE = "registry.example.com/s3csi:1";
// prettier-ignore
const cannotStart: [reason: string, words: string][] = [
  ["ErrImagePull",               `image ${IMAGE} cannot be pulled`],
  ["ImagePullBackOff",           `image ${IMAGE} cannot be pulled`],
  ["InvalidImageName",           `"${IMAGE}" is not the name of an image`],
  ["ErrImageNeverPull",          `image ${IMAGE} is not on the node, pull policy Never`],
  ["CreateContainerError",       "its container cannot be created"],
  ["CreateContainerConfigError", "its container cannot be created: configmap \"ca\" not found"],
  ["ContainerCreating",          ""],
  ["CrashLoopBackOff",           ""],
];
for (const [reason, words] of cannotStart) {
  test(`a Mountpoint Pod with ${reason}: ${words || "nothing to correct"}`, () => {
    const message = 'configmap "ca" not found';
    const containerStatuses = [{ ...container, state: { waiting: { reason, message } } }];
    const annotations = { [ANNOTATION.attachment]: "s3pa-1", [ANNOTATION.settingsHash]: "h1" };
    const facts = mountpointPodOf({
      metadata: { name: "mp-1", annotations },
      spec: { containers: [{ name: "mountpoint", image: IMAGE }] },
      status: { phase: "Pending", containerStatuses },
    });
    assert.deepEqual([facts?.cannotStart, facts?.settingsHash], [words, "h1"]);
  });
}

test("a sidecar that can't start does not count", () => {
  const sidecar = { ...container, name: "proxy", state: { waiting: { reason: "ErrImagePull" } } };
  for (const [mounter, started] of [
    [{ state: { running: {} } }, true],
    [{ state: { waiting: { reason: "CrashLoopBackOff" } }, lastState: { terminated: {} } }, true],
    [{ state: { waiting: { reason: "ContainerCreating" } } }, false],
  ] as const) {
    const containerStatuses = [{ ...container, ...mounter }, sidecar];
    const facts = factsOf({}, { phase: "Pending", containerStatuses } as never);
    assert.equal(facts?.started, started, "the phase stays Pending for the sidecar");
  }
  const status = { phase: "Running", containerStatuses: [container, sidecar] };
  assert.equal(factsOf({}, status)?.cannotStart, "");
});

test("a mounter that has ended has finished its pod, whatever a sidecar does", () => {
  const sidecar = { name: "proxy", restartCount: 9, state: { running: {} } };
  const beside = ({ phase, containerStatuses }: ReturnType<typeof ended>) =>
    factsOf({}, { phase, containerStatuses: [sidecar, ...containerStatuses] } as never);
  assert.equal(beside(ended(0, 0))?.finished, true);
  assert.equal(beside(ended(0, 1))?.finished, false, "the kubelet starts it again");
  assert.equal(
    factsOf({}, ended(0, 0) as never)?.finished,
    false,
    "the kubelet is about to say so",
  );
  const broken = { ...sidecar, state: { waiting: { reason: "CrashLoopBackOff" } } };
  const status = { phase: "Running", containerStatuses: [broken, container] };
  assert.equal(factsOf({}, status as never)?.backingOff, false, "the mounter is not harmed");
});
