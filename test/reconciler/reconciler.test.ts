import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { PODS } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { startReconciler } from "../../src/reconciler/run.ts";
import { mountpointPodFor } from "../../src/reconciler/mountpoint-pod.ts";
import {
  ATTACHMENTS,
  ATTACHMENT_API_VERSION,
  ATTACHMENT_KIND,
} from "../../src/volume/attachment.ts";
import type { Attachments } from "../../src/volume/attachment.ts";
import { ANNOTATION, mountpointPodNameOf } from "../../src/volume/names.ts";
import { CHART, CuttableLine, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { Bench, MOUNTPOINTS, NODE, POD_SETTINGS, log } from "./objects.ts";

const stop = new AbortController();
const { signal } = stop;
const TIMEOUT = { timeout: 60_000 };

let chart: InstalledChart;
let bench: Bench;
let line: CuttableLine;
let reconciling: Promise<void>;
let controller: KubeClient;

before(async () => {
  chart = await installChart();
  bench = new Bench(chart.admin, signal);
  await bench.start();
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  line = new CuttableLine(access.server);
  controller = new KubeClient(await line.access(access));
  reconciling = startReconciler(
    {
      client: controller,
      mountpointPods: POD_SETTINGS,
      instance: "controller-0",
      log,
    },
    signal,
  );
}, TIMEOUT);

after(async () => {
  stop.abort();
  await reconciling;
  controller[Symbol.dispose]();
  await line[Symbol.asyncDispose]();
  await chart[Symbol.asyncDispose]();
});

test(
  "a workload gets a Mountpoint Pod and then an attachment, a second shares",
  TIMEOUT,
  async () => {
    await bench.volume("pv-life", ["allow-delete", "uid=7"]);
    const first = await bench.workload("first", "pv-life");
    const { pod, attachment } = await bench.served(first);
    assert.equal(pod, mountpointPodNameOf(first, "pv-life"));
    const created = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
    assert.equal(created.spec?.priorityClassName, "mount-s3-critical");
    assert.equal(created.spec?.nodeName, undefined, "the scheduler binds it");
    await bench.runMountpointPod(pod);
    await bench.attachments.until(
      (list) => list.get(attachment)?.status?.phase === "Mounted" || undefined,
      signal,
    );

    const second = await bench.workload("second", "pv-life");
    assert.deepEqual(await bench.served(second), { pod, attachment });
    const stored = await chart.admin.get(ATTACHMENTS, { name: attachment }, signal);
    assert.equal(stored.spec.mountOptions, "allow-delete,uid=7");
    assert.equal(stored.spec.volumeID, "pv-life-handle");
    assert.equal(stored.spec.nodeName, NODE);

    await bench.removeWorkload("first");
    await bench.attachments.until((list) => {
      const listed = list.get(attachment)?.spec.mountpointS3PodAttachments[pod];
      return listed?.length === 1 ? true : undefined;
    }, signal);
    await bench.removeWorkload("second");
    await bench.marked(pod);
    await bench.endMountpointPod(pod, "Succeeded");
    await bench.nothingIsLeft();
  },
);

test("what a volume asks of its Mountpoint Pod is there, and admitted", TIMEOUT, async () => {
  const attributes = {
    bucketName: "bucket",
    cache: "ephemeral",
    cacheEphemeralStorageClassName: "fast",
    cacheEphemeralStorageResourceRequest: "2Gi",
    mountpointContainerResourcesLimitsMemory: "256Mi",
    "mountpointEnv.HTTPS_PROXY": "http://proxy:3128",
    mountpointPodServiceAccountName: "default",
  };
  await bench.volume("pv-features", [], attributes);
  const { pod } = await bench.served(await bench.workload("featured", "pv-features"));
  const { spec } = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
  const [container] = spec?.containers ?? [];
  assert.deepEqual(container?.resources?.limits, { memory: "256Mi" });
  assert.deepEqual(container.resources.requests, { cpu: "10m", memory: "256Mi" });
  assert.equal(spec?.volumes?.find((volume) => volume.name === "cache")?.emptyDir, undefined);
  await bench.removeWorkload("featured");
  await bench.nothingIsLeft();
});

test("a PV with a name of 253 characters works", TIMEOUT, async () => {
  const name = "p".repeat(253);
  await bench.volume(name);
  const uid = await bench.workload("long", name);
  const { pod } = await bench.served(uid);
  await bench.removeWorkload("long");
  await bench.mountpointPods.until(
    (list) => !list.get(`${MOUNTPOINTS}/${pod}`) || undefined,
    signal,
  );
  await bench.nothingIsLeft();
});

test("who fails, vanishes or crashes again and again has a successor", TIMEOUT, async () => {
  await bench.volume("pv-succession");
  const uid = await bench.workload("survivor", "pv-succession");
  const { pod, attachment } = await bench.served(uid);
  const moved = async (from: string, generation: number) => {
    const { next, mountId } = await bench.attachments.until((list) => {
      const spec = list.get(attachment)?.spec;
      const [first = from] = Object.keys(spec?.mountpointS3PodAttachments ?? {});
      return first === from ? undefined : { next: first, mountId: spec?.mountIDs?.[first] };
    }, signal);
    assert.equal(next, mountpointPodNameOf(uid, "pv-succession", generation));
    assert.equal(mountId, pod, "the attachment tells whose mount it serves");
    const created = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: next }, signal);
    assert.equal(created.metadata?.annotations?.[ANNOTATION.mountId], pod);
    return next;
  };
  await bench.runMountpointPod(pod);
  await bench.endMountpointPod(pod, "Failed");
  const second = await moved(pod, 1);
  const place = { namespace: MOUNTPOINTS, name: second };
  await chart.admin.delete(PODS, place, { gracePeriodSeconds: 0 }, signal);
  const third = await moved(second, 2);
  await bench.runMountpointPod(third);
  await bench.crashMountpointPod(third);
  const fourth = await moved(third, 3);
  const leaving = await bench.mountpointPods.until((list) => {
    const found = list.get(`${MOUNTPOINTS}/${third}`);
    return found?.metadata?.deletionTimestamp === undefined ? undefined : found;
  }, signal);
  assert.equal(leaving.metadata?.annotations?.[ANNOTATION.needsUnmount], undefined);
  await bench.removeMountpointPod(third); // what its kubelet does
  assert.equal((await bench.served(uid)).pod, fourth);
  await bench.removeWorkload("survivor");
  await bench.nothingIsLeft();
});

test("what belongs to nobody is swept away", TIMEOUT, async () => {
  const attachmentTime = new Date(0).toISOString();
  const spec = {
    nodeName: NODE,
    persistentVolumeName: "pv-of-old",
    volumeID: "v",
    mountOptions: "",
    workloadFSGroup: "",
  };
  const create = (name: string, lists: Attachments) =>
    chart.admin.create(
      ATTACHMENTS,
      {
        apiVersion: ATTACHMENT_API_VERSION,
        kind: ATTACHMENT_KIND,
        metadata: { name },
        spec: { ...spec, mountpointS3PodAttachments: lists },
      },
      signal,
    );
  await create("s3pa-stale", { "mp-gone": [{ workloadPodUID: "nobody", attachmentTime }] });
  await create("s3pa-empty", {});
  const orphan = mountpointPodFor(
    {
      name: "mp-orphan",
      workloadUid: "nobody",
      generation: 0,
      mountId: "mp-orphan",
      preempting: false,
    },
    {
      attachment: "s3pa-none",
      key: {
        ...spec,
        authenticationSource: "driver",
        workloadNamespace: "",
        workloadServiceAccountName: "",
      },
      attributes: {},
    },
    POD_SETTINGS,
  );
  await chart.admin.create(PODS, orphan, signal);
  await bench.nothingIsLeft();
});

test("every scalar field of an attachment can be selected", TIMEOUT, async () => {
  await bench.volume("pv-select", ["read-only"]);
  const uid = await bench.workload("selected", "pv-select");
  const { attachment } = await bench.served(uid);
  const node = new KubeClient(chart.accessOf("s3-csi-driver-sa"));
  const fields = {
    nodeName: NODE,
    persistentVolumeName: "pv-select",
    volumeID: "pv-select-handle",
    mountOptions: "read-only",
    workloadFSGroup: "",
    authenticationSource: "driver",
    workloadNamespace: "",
    workloadServiceAccountName: "",
  };
  for (const [field, value] of Object.entries(fields)) {
    const select = (what: string) =>
      node.list(ATTACHMENTS, { fieldSelector: `spec.${field}=${what}` }, signal);
    const found = (await select(value)).items.map((item) => item.metadata.name);
    assert.deepEqual(found, [attachment], field);
    assert.equal((await select("other")).items.length, 0, field);
  }
  await bench.removeWorkload("selected");
  await bench.nothingIsLeft();
  node[Symbol.dispose]();
});

test("a line that is cut while things happen is caught up with", TIMEOUT, async () => {
  await bench.volume("pv-cut");
  const first = await bench.workload("cut-1", "pv-cut");
  await bench.served(first);
  line.cut();
  await bench.removeWorkload("cut-1");
  const second = await bench.workload("cut-2", "pv-cut");
  line.mend();
  await bench.served(second);
  await bench.removeWorkload("cut-2");
  await bench.nothingIsLeft();
});

test("a version that the API server has forgotten is listed anew", TIMEOUT, async () => {
  const versions: string[] = [];
  const list = new WatchedList({
    client: {
      list: (resource, selection, s) => chart.admin.list(resource, selection, s),
      watch: (resource, selection, s) => {
        versions.push(selection.resourceVersion);
        const resourceVersion = versions.length === 1 ? "1" : selection.resourceVersion;
        return chart.admin.watch(resource, { ...selection, resourceVersion }, s);
      },
    },
    resource: ATTACHMENTS, // their cache begins with the CRD, long after version 1
    project: ({ spec }) => spec.persistentVolumeName,
    log,
    backOffMs: 10,
  });
  const own = new AbortController();
  const following = list.start(own.signal);
  await list.synced;
  await bench.volume("pv-old");
  const { attachment } = await bench.served(await bench.workload("after-410", "pv-old"));
  await list.until((attachments) => attachments.get(attachment), signal);
  own.abort();
  await following;
  assert(versions.length >= 2, "the first watch was refused");
  await bench.removeWorkload("after-410");
  await bench.nothingIsLeft();
});

test("what is wrong with a volume is said at the workload", TIMEOUT, async () => {
  const attributes = { bucketName: "bucket", authenticationSource: "pod" };
  await bench.volume("pv-wrong", [], attributes);
  const note = await bench.told(await bench.workload("wrong", "pv-wrong"), "InvalidVolume");
  assert.match(note, /volume pv-wrong: .*authenticationSource is "pod": use "driver" or "secret"/);
  await bench.removeWorkload("wrong");
});

test("two volumes with one handle in one pod are told at the pod", TIMEOUT, async () => {
  const attributes = { bucketName: "bucket" };
  for (const name of ["pv-twin-1", "pv-twin-2"]) await bench.volume(name, [], attributes, "twin");
  const note = await bench.told(
    await bench.workload("twins", ["pv-twin-1", "pv-twin-2"]),
    "InvalidVolume",
  );
  assert.match(note, /volume pv-twin-[12]: volumeHandle is "twin", as that of volume pv-twin-[12]/);
  await bench.removeWorkload("twins");
  await bench.nothingIsLeft();
});

test("a node without room is told at the workload and in the status", TIMEOUT, async () => {
  await bench.volume("pv-room");
  const uid = await bench.workload("waiting", "pv-room");
  const { pod, attachment } = await bench.served(uid);
  await bench.noRoomFor(pod, "0/1 nodes are available: 1 Insufficient memory.");
  const words = new RegExp(`${pod} finds no room on node ${NODE}: .*Insufficient memory`);
  assert.match(await bench.told(uid, "MountpointPodUnschedulable"), words);
  const status = await bench.attachments.until((list) => list.get(attachment)?.status, signal);
  assert.equal(status.phase, "Pending");
  assert.match(status.conditions?.find((one) => one.type === "Ready")?.message ?? "", words);
  await bench.removeWorkload("waiting");
  await bench.nothingIsLeft();
});

test("the chart upgrades in place and lints", TIMEOUT, async () => {
  await chart.helm("lint", CHART);
  await chart.helm("upgrade", "s3csi", CHART, "--set", "node.logLevel=5");
});
