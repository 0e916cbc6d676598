import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { untilFound } from "../../src/base/until-found.ts";
import { unless } from "../../src/base/unless.ts";
import { PODS } from "../../src/kube/resource.ts";
import { ClusterView } from "../../src/node/cluster-view.ts";
import { LIMIT_REASON } from "../../src/volume/attachment.ts";
import { LABEL, mountpointPodNameOf } from "../../src/volume/names.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { startController } from "./controller-life.ts";
import { Bench, MOUNTPOINTS, NODE, WORKLOADS, log } from "./objects.ts";

/** Sooner than any sweep of the controller: a place that is free is an event. */
const TIMEOUT = { timeout: 60_000 };

const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let bench: Bench;
let view: ClusterView;

before(async () => {
  chart = await installChart();
  bench = new Bench(chart.admin, signal);
  await bench.start();
  view = new ClusterView({ client: chart.admin, nodeName: NODE, namespace: MOUNTPOINTS, log });
  void view.follow(signal);
  await view.synced;
}, TIMEOUT);
after(async () => {
  stop.abort();
  await chart[Symbol.asyncDispose]();
});

/** A workload on a volume of its own. */
async function workloadOn(volume: string): Promise<string> {
  await bench.volume(volume);
  return bench.workload(`w-${volume}`, volume);
}

async function served(uid: string): Promise<string> {
  const { pod } = await bench.served(uid);
  await bench.runMountpointPod(pod);
  return pod;
}

/** The words that the controller leaves in the attachment of a volume. */
function heldBack(volume: string): Promise<string> {
  return bench.attachments.until((list) => {
    const all = list.values().filter(({ spec }) => spec.persistentVolumeName === volume);
    const conditions = all.flatMap(({ status }) => status?.conditions ?? []);
    return conditions.find(({ reason }) => reason === LIMIT_REASON)?.message;
  }, signal);
}

async function endMountpointPod(name: string): Promise<void> {
  await bench.marked(name);
  await bench.endMountpointPod(name, "Succeeded");
}

async function tidyUp(...volumes: string[]): Promise<void> {
  for (const volume of volumes) await bench.removeWorkload(`w-${volume}`);
  await bench.attachments.until(
    (list) => Array.from(list.values()).length === 0 || undefined,
    signal,
  );
  for (const { metadata } of bench.mountpointPods.values()) {
    await unless("absent", bench.removeMountpointPod(metadata?.name ?? ""));
  }
  await bench.nothingIsLeft();
}

test(
  "a workload over the limit waits, is told why, and follows when a place is free",
  TIMEOUT,
  async () => {
    await using _controller = startController(chart, signal, { limitPerNamespace: 2 });
    const [one, two] = [await workloadOn("a1"), await workloadOn("a2")];
    const pods = [await served(one), await served(two)];
    const three = await workloadOn("a3");
    const note = await bench.told(three, "MountpointPodLimitReached");
    assert.match(
      note,
      /^volume a3 waits: namespace default has 2 Mountpoint Pods, its limit is 2; /,
    );
    assert.match(note, /delete pods .* or have mountpointPod\.limits\.perNamespace raised$/);
    const words = await heldBack("a3");
    assert.match(
      words,
      /^namespace default has reached its limit of 2 Mountpoint Pods: delete pods/,
    );
    const claimant = { workloadUid: three, volumeId: "a3-handle", pvName: "a3" };
    const told = await untilFound(
      () => view.heldBackWhy(claimant),
      (look) => view.onAttachmentChange(look),
      signal,
    );
    assert.equal(told, words, "what the publish answers with");
    assert.equal(view.isAssigned(claimant), false);

    const other = await bench.workload("w-shares", "a1");
    assert.equal(
      (await bench.served(other)).pod,
      pods[0],
      "a shared Mountpoint Pod costs no place",
    );
    await bench.removeWorkload("w-shares");
    await bench.removeWorkload("w-a2");
    await endMountpointPod(pods[1] ?? "");
    const { pod, attachment } = await bench.served(three);
    const made = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
    assert.equal(made.metadata?.labels?.[LABEL.workloadNamespace], WORKLOADS);
    await bench.attachments.until((list) => {
      const conditions = list.get(attachment)?.status?.conditions ?? [];
      return conditions.every(({ reason }) => reason !== LIMIT_REASON) || undefined;
    }, signal);
    await tidyUp("a1", "a3");
  },
);

test(
  "a successor is made over the limit; a lowered limit touches nobody that runs",
  TIMEOUT,
  async () => {
    const uids = [];
    {
      await using _unlimited = startController(chart, signal);
      for (const volume of ["b1", "b2"]) uids.push(await workloadOn(volume));
      for (const uid of uids) await served(uid);
    }
    const [uid = ""] = uids;
    await using _limited = startController(chart, signal, { limitPerNamespace: 1 });
    const waits = await workloadOn("b3");
    const note = await bench.told(waits, "MountpointPodLimitReached");
    assert.match(note, /namespace default has 2 Mountpoint Pods, its limit is 1;/);
    const { pod, attachment } = await bench.served(uid);
    await bench.removeMountpointPod(pod);
    const successor = mountpointPodNameOf(uid, "b1", 1);
    await bench.listed(attachment, (lists) => lists[successor]?.includes(uid) === true);
    const there = Array.from(bench.mountpointPods.values(), ({ metadata }) => metadata?.name);
    const second = mountpointPodNameOf(uids[1] ?? "", "b2");
    assert.deepEqual(new Set(there), new Set([successor, second]));
    await tidyUp("b1", "b2", "b3");
  },
);

test("many that come at once get as many places as there are", TIMEOUT, async () => {
  const volumes = Array.from({ length: 12 }, (_, i) => `c${i}`);
  for (const volume of volumes) await workloadOn(volume);
  await using _controller = startController(chart, signal, { limitPerNamespace: 5 });
  await bench.attachments.until((list) => {
    const all = Array.from(list.values(), ({ status }) => status?.conditions?.[0]?.reason);
    return all.filter((reason) => reason === LIMIT_REASON).length === 7 || undefined;
  }, signal);
  await bench.mountpointPods.until((list) => Array.from(list.values()).length >= 5, signal);
  assert.equal(Array.from(bench.mountpointPods.values()).length, 5);
  await tidyUp(...volumes);
});
