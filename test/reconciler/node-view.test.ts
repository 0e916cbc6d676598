import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { after, before, test } from "node:test";
import { untilFound } from "../../src/base/until-found.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { PODS } from "../../src/kube/resource.ts";
import { ClusterView } from "../../src/node/cluster-view.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { MOUNTPOINTS, NODE, WORKLOADS, log } from "./objects.ts";
import type { Bench } from "./objects.ts";
import { startScene } from "./scene.ts";

const TIMEOUT = { timeout: 60_000 };
const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let bench: Bench;
let signal: AbortSignal;
let view: ClusterView;

before(async () => {
  chart = owned.use(await installChart());
  ({ bench, signal } = owned.use(await startScene(chart)));
  const client = owned.use(new KubeClient(chart.accessOf("s3-csi-driver-sa", NODE)));
  view = new ClusterView({ client, nodeName: NODE, namespace: MOUNTPOINTS, log });
  const stop = new AbortController();
  const following = view.follow(stop.signal);
  owned.defer(() => {
    stop.abort();
    return following;
  });
  await view.synced;
}, TIMEOUT);
after(() => owned.disposeAsync());

const untilSeen = (uid: string) =>
  untilFound(
    () => view.pod(uid),
    (look) => view.onPodChange(look),
    signal,
  );

// prettier-ignore
const LEAVING: [how: string, leave: (name: string) => Promise<unknown>][] = [
  ["is being deleted",        (name) => remove(name, 30)],
  ["is gone all at once",     (name) => remove(name, 0)],
  ["has failed, as by an eviction", (name) => setPhase(name, "Failed")],
  ["has succeeded",           (name) => setPhase(name, "Succeeded")],
];
const remove = (name: string, gracePeriodSeconds: number, namespace = WORKLOADS) =>
  chart.admin.delete(PODS, { namespace, name }, { gracePeriodSeconds }, signal);
const setPhase = (name: string, phase: string) =>
  chart.admin.patchStatus(PODS, { namespace: WORKLOADS, name }, { status: { phase } }, signal);

for (const [index, [how, leave]] of LEAVING.entries()) {
  test(`a workload that ${how} needs no volume any more`, TIMEOUT, async () => {
    await bench.volume(`pv-${index}`);
    const name = `leaving-${index}`;
    const uid = await bench.workload(name, `pv-${index}`);
    await untilSeen(uid);
    const left = view.untilLeaving(uid, signal);
    const first = await Promise.race([left.then(() => "left"), bench.served(uid)]);
    assert.notEqual(first, "left");
    await leave(name);
    await left;
  });
}

test("a workload of which nothing was heard yet may still come", TIMEOUT, async () => {
  const stop = new AbortController();
  const left = view.untilLeaving("of-a-pod-to-come", stop.signal);
  await bench.volume("pv-noise");
  await untilSeen(await bench.workload("noise", "pv-noise")); // each change is looked at
  stop.abort(new Error("still waiting"));
  await assert.rejects(left, /still waiting/);
});

test("the driver's keys are for mounts that are signed with them", TIMEOUT, async () => {
  const attributes = { bucketName: "bucket" };
  const secret = { ...attributes, authenticationSource: "secret" };
  // prettier-ignore
  const mounts: [name: string, mountOptions: string[], attributes: Record<string, string>, uses: boolean][] = [
    ["signed",   ["allow-other"],                        attributes, true],
    ["unsigned", ["allow-other", "--no-sign-request"],   attributes, false],
    ["bare",     ["no-sign-request"],                    attributes, false],
    ["comma",    ["prefix=2024,q1/"],                    attributes, true],
    ["name",     ["prefix=a,no-sign-request"],           attributes, true],
    ["own",      [],                                     secret,     false],
  ];
  for (const [name, mountOptions, volumeAttributes, uses] of mounts) {
    await bench.volume(`pv-${name}`, mountOptions, volumeAttributes);
    const uid = await bench.workload(name, `pv-${name}`);
    const { pod } = await bench.served(uid);
    await bench.schedule(MOUNTPOINTS, pod);
    const there = await view.untilScheduled(pod, signal);
    const claimant = { workloadUid: uid, volumeId: `pv-${name}-handle`, pvName: `pv-${name}` };
    await view.untilAssigned(claimant, signal);
    assert.equal(view.usesDriverKeys(there), uses, name);
  }
});

// prettier-ignore
const FINISHING: [how: string, finish: (name: string) => Promise<unknown>][] = [
  ["has succeeded",       (name) => setPhase(name, "Succeeded")],
  ["has failed",          (name) => setPhase(name, "Failed")],
  ["is gone all at once", (name) => remove(name, 0)],
];

for (const [index, [how, finish]] of FINISHING.entries()) {
  test(
    `a workload that ${how} has finished, one that is terminating has not`,
    TIMEOUT,
    async () => {
      await bench.volume(`pv-finishing-${index}`);
      const name = `finishing-${index}`;
      const uid = await bench.workload(name, `pv-finishing-${index}`);
      await untilSeen(uid);
      const finished = new Set<string>();
      using _finished = view.onPodFinished((one) => finished.add(one));
      await remove(name, 30);
      await view.untilLeaving(uid, signal);
      assert.deepEqual([finished.has(uid), [...view.finishedPods()].includes(uid)], [false, false]);
      await finish(name);
      await untilFound(
        () => (finished.has(uid) ? true : undefined),
        (look) => view.onPodFinished(look),
        signal,
      );
    },
  );
}

test("why a Mountpoint Pod does not run is followed, scheduled or not", TIMEOUT, async () => {
  await bench.volume("pv-problem");
  const { pod: name } = await bench.served(await bench.workload("problem", "pv-problem"));
  const place = { namespace: MOUNTPOINTS, name };
  const told = new EventEmitter();
  let last: string | undefined = "nothing yet";
  const untilTold = (problem: string | undefined) =>
    untilFound(
      () => (last === problem ? true : undefined),
      (look) => {
        told.on("told", look);
        return { [Symbol.dispose]: () => void told.off("told", look) };
      },
      signal,
    );
  const setStatus = (status: object) => chart.admin.patchStatus(PODS, place, { status }, signal);
  const stop = new AbortController();
  const hear = (problem: string | undefined) => {
    last = problem;
    told.emit("told");
  };
  const following = view.followProblem(name, hear, stop.signal);
  await untilTold(undefined);
  const unscheduled = { type: "PodScheduled", status: "False", reason: "Unschedulable" };
  await setStatus({ conditions: [{ ...unscheduled, message: "0/1 nodes are available" }] });
  await untilTold("Unschedulable: 0/1 nodes are available");
  await setStatus({ nominatedNodeName: NODE }); // it has preempted others
  await untilTold(undefined);
  await bench.schedule(MOUNTPOINTS, name);
  const waiting = { reason: "ErrImagePull", message: "no such image" };
  const container = { name: "mountpoint", image: "x", imageID: "", ready: false, restartCount: 0 };
  const containerStatuses = [{ ...container, state: { waiting } }];
  await setStatus({ conditions: [{ type: "PodScheduled", status: "True" }], containerStatuses });
  await untilTold("ErrImagePull: no such image");
  await remove(name, 0, MOUNTPOINTS);
  await untilTold("it is gone");
  stop.abort();
  await following;
});
