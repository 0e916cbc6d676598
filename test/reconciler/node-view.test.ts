import assert from "node:assert/strict";
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
const remove = (name: string, gracePeriodSeconds: number) =>
  chart.admin.delete(PODS, { namespace: WORKLOADS, name }, { gracePeriodSeconds }, signal);
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
