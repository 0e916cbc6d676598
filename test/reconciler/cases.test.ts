import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NODES, PODS, PVS } from "../../src/kube/resource.ts";
import { ATTACHMENTS, optionListOf } from "../../src/volume/attachment.ts";
import { ANNOTATION, LABEL, mountpointPodNameOf } from "../../src/volume/names.ts";
import { CuttableLine, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { MOUNTPOINTS, UNSCHEDULED, WORKLOADS } from "./objects.ts";
import type { Bench } from "./objects.ts";
import { startScene } from "./scene.ts";

const TIMEOUT = { timeout: 60_000 };
const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let line: CuttableLine;
let bench: Bench;
let signal: AbortSignal;

before(async () => {
  chart = owned.use(await installChart());
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  line = owned.use(new CuttableLine(access.server));
  ({ bench, signal } = owned.use(await startScene(chart, await line.access(access))));
}, TIMEOUT);
after(() => owned.disposeAsync());

const listsAll =
  (uids: readonly string[]) => (lists: Readonly<Record<string, readonly string[]>>) =>
    uids.every((uid) => Object.values(lists).flat().includes(uid));

/** What a kubelet tells of a pod. */
async function setStatus(namespace: string, name: string, status: object): Promise<void> {
  await chart.admin.patchStatus(PODS, { namespace, name }, { status }, signal);
}

/** From when on a pod takes in nobody is not told: some who come early may still join it. */
async function newcomerElsewhere(prefix: string, volume: string, than: string): Promise<string[]> {
  const names: string[] = [];
  for (let place = than; place === than;) {
    const name = `${prefix}-${names.length}`;
    names.push(name);
    place = (await bench.served(await bench.workload(name, volume))).pod;
  }
  return names;
}

test("headroom that was switched off leaves nobody without a Mountpoint Pod", TIMEOUT, async () => {
  await bench.volume("pv-had-headroom");
  const name = "had-headroom";
  const uid = await bench.workload(name, "pv-had-headroom", { nodeName: UNSCHEDULED });
  const labels = { [LABEL.headroomForWorkload]: uid };
  await chart.admin.patch(PODS, { namespace: WORKLOADS, name }, { metadata: { labels } }, signal);
  await bench.schedule(WORKLOADS, name);
  const { pod } = await bench.served(uid);
  const { spec } = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
  assert.equal(spec?.priorityClassName, "mount-s3-critical");
  await bench.removeWorkload(name);
  await bench.nothingIsLeft();
});

test("a workload is served once it is scheduled, with all of its volumes", TIMEOUT, async () => {
  await bench.volume("pv-one");
  await bench.volume("pv-two");
  const waiting = await bench.workload("waiting", ["pv-one", "pv-two"], { nodeName: UNSCHEDULED });
  const other = await bench.workload("other", "pv-one");
  const { attachment, pod } = await bench.served(other);
  assert.equal(pod, mountpointPodNameOf(other, "pv-one"), "not that of who waits for a node");
  await bench.schedule(WORKLOADS, "waiting");
  await bench.listed(attachment, listsAll([waiting])); // a Mountpoint Pod that does not run yet
  await bench.mountpointPods.until(
    (list) => list.get(`${MOUNTPOINTS}/${mountpointPodNameOf(waiting, "pv-two")}`),
    signal,
  );
  await bench.attachments.until((list) => {
    const lists = list.values().filter(({ spec }) => spec.persistentVolumeName === "pv-two");
    const spec = lists.toArray()[0]?.spec;
    return Object.keys(spec?.mountpointS3PodAttachments ?? {}).length === 1 || undefined;
  }, signal);
  for (const name of ["waiting", "other"]) await bench.removeWorkload(name);
  await bench.nothingIsLeft();
});

test("a claim that is bound after its pod was scheduled is served then", TIMEOUT, async () => {
  const uid = await bench.workload("early", "pv-late");
  await bench.volume("pv-late");
  await bench.served(uid);
  await bench.removeWorkload("early");
  await bench.nothingIsLeft();
});

test("who is being deleted stays attached until he is gone", TIMEOUT, async () => {
  await bench.volume("pv-leaving");
  const leaving = await bench.workload("leaving", "pv-leaving");
  const { attachment } = await bench.served(leaving);
  await chart.admin.delete(PODS, { namespace: WORKLOADS, name: "leaving" }, {}, signal);
  const second = await bench.workload("second", "pv-leaving"); // the proof that time has passed
  await bench.listed(attachment, listsAll([leaving, second]));
  await bench.removeWorkload("second");
  await bench.listed(attachment, (lists) => !listsAll([second])(lists));
  await bench.listed(attachment, listsAll([leaving]));
  await bench.removeWorkload("leaving");
  await bench.nothingIsLeft();
});

test("an option with a comma inside is served, and never shared with two", TIMEOUT, async () => {
  const places = [];
  const lists = [["prefix=2024,q1/"], ["prefix=2024/", "uid=7"], ["prefix=2024/,uid=7"]];
  for (const [index, mountOptions] of lists.entries()) {
    await bench.volume(`pv-comma-${index}`, mountOptions);
    const uid = await bench.workload(`comma-${index}`, `pv-comma-${index}`);
    const { attachment } = await bench.served(uid);
    const { spec } = await chart.admin.get(ATTACHMENTS, { name: attachment }, signal);
    assert.equal(spec.mountOptions, mountOptions.join(","));
    assert.deepEqual(optionListOf(spec), mountOptions);
    places.push(attachment);
  }
  // A successor is made from the attachment alone: the PV may have been edited since.
  const uid = await bench.uidOf("comma-0");
  const { attachment, pod } = await bench.served(uid);
  await bench.runMountpointPod(pod);
  await bench.endMountpointPod(pod, "Failed");
  await bench.listed(attachment, (pods) => !(pod in pods) && listsAll([uid])(pods));
  assert.equal(new Set(places).size, 3);
  for (const index of places.keys()) await bench.removeWorkload(`comma-${index}`);
  await bench.nothingIsLeft();
});

test(
  "a volume's proxies do not reach its Mountpoint Pod, whoever's keys it has",
  TIMEOUT,
  async () => {
    for (const authenticationSource of ["driver", "secret"]) {
      const name = `proxied-${authenticationSource}`;
      const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].map((variable) => {
        return [`mountpointEnv.${variable}`, "http://elsewhere.example.com:3128"] as const;
      });
      const attributes = { bucketName: "bucket", authenticationSource };
      await bench.volume(`pv-${name}`, [], { ...attributes, ...Object.fromEntries(proxies) });
      const { pod } = await bench.served(await bench.workload(name, `pv-${name}`));
      const { spec } = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
      assert.equal(spec?.containers[0]?.env, undefined);
      await bench.removeWorkload(name);
    }
    await bench.nothingIsLeft();
  },
);

test(
  "a cache that names no size has one, and is admitted with what it takes",
  TIMEOUT,
  async () => {
    const inMemory = { bucketName: "bucket", cache: "emptyDir", cacheEmptyDirMedium: "Memory" };
    // prettier-ignore
    const caches: [name: string, options: string[], attributes: Record<string, string>, size: string, requested: object][] = [
    ["by-option", ["cache"], { bucketName: "bucket" },                    "10Gi",  { "ephemeral-storage": "10Gi", memory: "64Mi" }],
    ["on-disk",   [],        { bucketName: "bucket", cache: "emptyDir" }, "10Gi",  { "ephemeral-storage": "10Gi", memory: "64Mi" }],
    ["in-memory", [],        inMemory,                                    "512Mi", { memory: "576Mi" }],
  ];
    for (const [name, options, attributes, size, requested] of caches) {
      await bench.volume(`pv-${name}`, options, attributes);
      const { pod } = await bench.served(await bench.workload(name, `pv-${name}`));
      const { spec } = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
      const cache = spec?.volumes?.find((volume) => volume.name === "cache");
      assert.equal(cache?.emptyDir?.sizeLimit, size, name);
      const { cpu: _, ...requests } = spec?.containers[0]?.resources?.requests ?? {};
      assert.deepEqual(requests, requested, name);
      await bench.removeWorkload(name);
    }
    await bench.nothingIsLeft();
  },
);

test("a volume edited to look the same gets another attachment", TIMEOUT, async () => {
  await bench.volume("pv-edited", ["dir-mode=0770", "file-mode=0660"]);
  const first = await bench.served(await bench.workload("two-options", "pv-edited"));
  const mountOptions = ["dir-mode=0770,file-mode=0660"];
  await chart.admin.patch(PVS, { name: "pv-edited" }, { spec: { mountOptions } }, signal);
  const names = await newcomerElsewhere("one-option", "pv-edited", first.pod);
  for (const name of ["two-options", ...names]) await bench.removeWorkload(name);
  await bench.nothingIsLeft();
});

test(
  "who has completed or failed is detached, though his pod is still there",
  TIMEOUT,
  async () => {
    await bench.volume("pv-job");
    const [done, failed] = [
      await bench.workload("done", "pv-job"),
      await bench.workload("failed", "pv-job"),
    ];
    await bench.served(done);
    await bench.served(failed);
    await setStatus(WORKLOADS, "done", { phase: "Succeeded" });
    await setStatus(WORKLOADS, "failed", { phase: "Failed" });
    await bench.nothingIsLeft();
    for (const name of ["done", "failed"]) await bench.removeWorkload(name);
  },
);

test("a pod made anew under its name, as a StatefulSet does, is another one", TIMEOUT, async () => {
  await bench.volume("pv-stateful");
  const first = await bench.workload("db-0", "pv-stateful");
  const { attachment } = await bench.served(first);
  await bench.removeWorkload("db-0");
  const second = await bench.workload("db-0", "pv-stateful");
  await bench.served(second);
  line.cut(); // so that the controller never sees it gone
  await bench.removeWorkload("db-0");
  const third = await bench.workload("db-0", "pv-stateful");
  line.mend();
  await bench.served(third);
  const { spec } = (await bench.attachments.until((list) => list.get(attachment), signal)) ?? {};
  const uids = Object.values(spec?.mountpointS3PodAttachments ?? {}).flat();
  assert.deepEqual(
    uids.map((entry) => entry.workloadPodUID),
    [third],
  );
  await bench.removeWorkload("db-0");
  await bench.nothingIsLeft();
});

test("nobody joins a pod of an older driver, or one that is drained", TIMEOUT, async () => {
  const marks = {
    older: { labels: { [LABEL.driverVersion]: "0.0.1" } },
    drained: { annotations: { [ANNOTATION.noNewWorkload]: "true" } },
  };
  for (const [name, metadata] of Object.entries(marks)) {
    const volume = `pv-${name}`;
    await bench.volume(volume);
    const uid = await bench.workload(`${name}-first`, volume);
    const { pod, attachment } = await bench.served(uid);
    await bench.runMountpointPod(pod);
    await chart.admin.patch(PODS, { namespace: MOUNTPOINTS, name: pod }, { metadata }, signal);
    const newcomers = await newcomerElsewhere(name, volume, pod);
    assert.deepEqual(await bench.served(uid), { pod, attachment }, "who is there stays");
    for (const gone of [`${name}-first`, ...newcomers]) await bench.removeWorkload(gone);
    await bench.marked(pod);
    await bench.endMountpointPod(pod, "Succeeded");
    await bench.nothingIsLeft();
  }
});

test("who is evicted, or ends though he is needed, has a successor", TIMEOUT, async () => {
  await bench.volume("pv-evicted");
  const uid = await bench.workload("stays", "pv-evicted");
  const { pod, attachment } = await bench.served(uid);
  const evicted = { phase: "Failed", reason: "Evicted", message: "low on memory" };
  await bench.runMountpointPod(pod);
  await setStatus(MOUNTPOINTS, pod, evicted);
  const second = mountpointPodNameOf(uid, "pv-evicted", 1);
  await bench.listed(attachment, (lists) => lists[second]?.includes(uid) === true);
  await bench.runMountpointPod(second);
  await setStatus(MOUNTPOINTS, second, { phase: "Succeeded" });
  const third = mountpointPodNameOf(uid, "pv-evicted", 2);
  await bench.listed(attachment, (lists) => lists[third]?.includes(uid) === true);
  await bench.removeWorkload("stays");
  await bench.nothingIsLeft();
});

test("a volume that is edited, or used with another group, is another mount", TIMEOUT, async () => {
  await bench.volume("pv-edit", ["allow-delete"]);
  const [plain, grouped] = [
    await bench.workload("plain", "pv-edit"),
    await bench.workload("grouped", "pv-edit", { fsGroup: 2000 }),
  ];
  const places = [await bench.served(plain), await bench.served(grouped)];
  const options = { spec: { mountOptions: ["read-only"] } };
  await chart.admin.patch(PVS, { name: "pv-edit" }, options, signal);
  const podsBefore = new Set(places.map((place) => place.pod));
  assert.equal(podsBefore.size, 2);
  const attachments = new Set(places.map((place) => place.attachment));
  const names: string[] = [];
  for (let place = places[0]; place !== undefined && attachments.has(place.attachment);) {
    const name = `edited-${names.length}`; // the controller may hear of the pod first
    names.push(name);
    place = await bench.served(await bench.workload(name, "pv-edit"));
  }
  assert.deepEqual(await bench.served(plain), places[0], "who runs is not moved");
  for (const name of ["plain", "grouped", ...names]) await bench.removeWorkload(name);
  await bench.nothingIsLeft();
});

test(
  "a PV deleted under a running pod: it is served on, apart from its namesake",
  TIMEOUT,
  async () => {
    await bench.volume("pv-lost");
    const uid = await bench.workload("on-lost", "pv-lost");
    const { pod, attachment } = await bench.served(uid);
    await bench.runMountpointPod(pod);
    const old = await chart.admin.get(PVS, { name: "pv-lost" }, signal);
    await chart.admin.delete(PVS, { name: "pv-lost" }, {}, signal);
    await chart.admin.patch(PVS, { name: "pv-lost" }, { metadata: { finalizers: null } }, signal);
    await bench.endMountpointPod(pod, "Failed");
    const second = mountpointPodNameOf(uid, "pv-lost", 1);
    await bench.listed(attachment, (lists) => lists[second]?.includes(uid) === true);

    const { capacity, accessModes, csi, claimRef, storageClassName } = old.spec ?? {};
    const spec = { capacity, accessModes, csi, claimRef, storageClassName };
    await chart.admin.create(PVS, { metadata: { name: "pv-lost" }, spec } as typeof old, signal);
    const namesake = await bench.served(await bench.workload("on-namesake", "pv-lost"));
    assert.notEqual(namesake.attachment, attachment);
    assert.deepEqual(await bench.served(uid), { pod: second, attachment });
    for (const name of ["on-lost", "on-namesake"]) await bench.removeWorkload(name);
    await bench.nothingIsLeft();
  },
);

test(
  "a node is deleted: Kubernetes clears away its pods, and nothing is left of ours",
  { timeout: 240_000 },
  async () => {
    const nodeName = "node-gone";
    await chart.admin.create(NODES, { metadata: { name: nodeName }, spec: {} }, signal);
    await bench.volume("pv-gone");
    await bench.volume("pv-starts");
    const { pod } = await bench.served(await bench.workload("on-gone", "pv-gone", { nodeName }));
    await bench.runMountpointPod(pod, nodeName);
    await bench.served(await bench.workload("starts", "pv-starts", { nodeName })); // never scheduled
    await chart.admin.delete(NODES, { name: nodeName }, {}, signal);
    await bench.nothingIsLeft();
  },
);
