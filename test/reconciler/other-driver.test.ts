import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PODS } from "../../src/kube/resource.ts";
import { ClusterView } from "../../src/node/cluster-view.ts";
import {
  ATTACHMENT_API_VERSION,
  ATTACHMENT_KIND,
  ATTACHMENTS,
  attachmentSpecOf,
} from "../../src/volume/attachment.ts";
import { ANNOTATION, DRIVER_NAME, mountpointPodNameOf } from "../../src/volume/names.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { startController } from "./controller-life.ts";
import { Bench, MOUNTPOINTS, NODE, log } from "./objects.ts";

const TIMEOUT = { timeout: 60_000 };

const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let bench: Bench;
let controller: AsyncDisposable;

before(async () => {
  chart = await installChart();
  bench = new Bench(chart.admin, signal);
  await bench.start();
  controller = startController(chart, signal);
}, TIMEOUT);
after(async () => {
  stop.abort();
  await controller[Symbol.asyncDispose]();
  await chart[Symbol.asyncDispose]();
});

const claimantOf = (workloadUid: string) => ({
  workloadUid,
  volumeId: "shared-handle",
  pvName: "shared",
});

/** The namespace admits nothing less restricted. */
const SPEC = {
  nodeName: NODE,
  securityContext: {
    runAsNonRoot: true,
    runAsUser: 1000,
    seccompProfile: { type: "RuntimeDefault" as const },
  },
  containers: [
    {
      name: "mountpoint",
      image: "mountpoint",
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    },
  ],
};

/** A Mountpoint Pod as the reference driver makes it: with our form of name and no annotation. */
async function foreignPod(name: string): Promise<void> {
  const labels = { "app.kubernetes.io/name": "mountpoint-s3-csi-driver" };
  const pod = {
    metadata: { name, namespace: MOUNTPOINTS, labels },
    spec: SPEC,
  };
  await chart.admin.create(PODS, pod, signal);
  await bench.endMountpointPod(name, "Running");
}

test(
  "a workload whose Mountpoint Pod's name another driver has taken gets the next one",
  TIMEOUT,
  async () => {
    await bench.volume("taken");
    // The reference driver was removed while the workload waited: its pod has been left.
    const uid = await bench.workload("w-taken", "taken", { nodeName: "" });
    const name = mountpointPodNameOf(uid, "taken");
    await foreignPod(name);
    await bench.schedule("default", "w-taken");
    const { pod } = await bench.served(uid);
    assert.equal(pod, mountpointPodNameOf(uid, "taken", 1));
    await bench.runMountpointPod(pod);
    await bench.removeWorkload("w-taken");
    await bench.marked(pod);
    await bench.endMountpointPod(pod, "Succeeded");
    await bench.mountpointPods.until((list) => Array.from(list.values()).length === 1, signal);
    await bench.removeMountpointPod(name);
    await bench.nothingIsLeft();
  },
);

test(
  "workloads on a Mountpoint Pod of another driver stay on it until they end",
  TIMEOUT,
  async () => {
    await bench.volume("shared");
    const uid = await bench.workload("w-old", "shared", { nodeName: "" });
    const foreign = mountpointPodNameOf(uid, "shared");
    await foreignPod(foreign);
    const entry = { workloadPodUID: uid, attachmentTime: new Date().toISOString() };
    const key = {
      nodeName: NODE,
      persistentVolumeName: "shared",
      volumeID: "shared-handle",
      mountOptions: "",
      workloadFSGroup: "",
      authenticationSource: "driver",
      workloadNamespace: "",
      workloadServiceAccountName: "",
    };
    const spec = attachmentSpecOf(key, { attachments: { [foreign]: [entry] }, mountIds: {} });
    const object = { apiVersion: ATTACHMENT_API_VERSION, kind: ATTACHMENT_KIND } as const;
    await chart.admin.create(
      ATTACHMENTS,
      { ...object, metadata: { name: "s3pa-old" }, spec },
      signal,
    );
    await bench.schedule("default", "w-old");
    const status = { conditions: [{ type: "PodReadyToStartContainers", status: "True" }] };
    await chart.admin.patchStatus(
      PODS,
      { namespace: "default", name: "w-old" },
      { status },
      signal,
    );

    const other = await bench.workload("w-new", "shared");
    const { pod } = await bench.served(other);
    assert.notEqual(pod, foreign, "new workloads are served by this driver");
    const { spec: kept } = await chart.admin.get(ATTACHMENTS, { name: "s3pa-old" }, signal);
    assert.deepEqual(kept.mountpointS3PodAttachments, { [foreign]: [entry] });
    const view = new ClusterView({
      client: chart.admin,
      nodeName: NODE,
      namespace: MOUNTPOINTS,
      log,
    });
    void view.follow(signal);
    await view.synced;
    assert.equal(view.isAssigned(claimantOf(uid)), false, "a repeated publish leaves its mount");
    assert.equal(view.isAssigned(claimantOf(other)), true);
    const place = { namespace: MOUNTPOINTS, name: foreign };
    const { metadata } = await chart.admin.get(PODS, place, signal);
    assert.equal(metadata?.annotations?.[`${DRIVER_NAME}/needs-unmount`], undefined);

    await bench.removeWorkload("w-old");
    await bench.attachments.until(
      (list) => list.get("s3pa-old") === undefined || undefined,
      signal,
    );
    await bench.runMountpointPod(pod);
    await bench.removeWorkload("w-new");
    await bench.marked(pod);
    await bench.endMountpointPod(pod, "Succeeded");
    await bench.removeMountpointPod(foreign);
    await bench.nothingIsLeft();
  },
);

test(
  "a Mountpoint Pod with its cache on a volume of this driver gets none itself",
  TIMEOUT,
  async () => {
    const name = mountpointPodNameOf("another", "endless");
    const claimName = `${name}-cache`;
    const attributes = { bucketName: "bucket" };
    await bench.volume("endless", [], attributes, "h", { namespace: MOUNTPOINTS, claimName });
    const mountpoint = {
      metadata: {
        name,
        namespace: MOUNTPOINTS,
        annotations: { [ANNOTATION.attachment]: "s3pa-another" },
      },
      spec: { ...SPEC, volumes: [{ name: "cache", persistentVolumeClaim: { claimName } }] },
    };
    await chart.admin.create(PODS, mountpoint, signal);
    // The queue is in order: when this workload is served, the Mountpoint Pod was looked at.
    await bench.volume("last");
    const last = await bench.served(await bench.workload("w-last", "last"));
    const names = Array.from(bench.attachments.values(), ({ metadata }) => metadata.name);
    assert.deepEqual(names, [last.attachment]);
    await bench.removeMountpointPod(name);
  },
);
