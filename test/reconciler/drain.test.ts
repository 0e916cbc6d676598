import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LEASES, NODES, PODS } from "../../src/kube/resource.ts";
import type { Pod } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { HEADROOM_GATE } from "../../src/volume/names.ts";
import { CHART, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { MOUNTPOINTS, NODE, POD_SETTINGS, WORKLOADS, claimNameOf, log } from "./objects.ts";
import type { Bench } from "./objects.ts";
import { startScene } from "./scene.ts";

/** As docs/install.md says, for the driver's pods: a bench's workloads have no controller. */
const FLAGS = ["--ignore-daemonsets", "--delete-emptydir-data", "--dry-run=server"];
const SELECTOR = "--pod-selector=app.kubernetes.io/component in (mountpoint,headroom)";
const TIMEOUT = { timeout: 60_000 };
const HEADROOM = { ...POD_SETTINGS, image: "pause", priorityClassName: "mount-s3-headroom" };

const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let bench: Bench;
let signal: AbortSignal;

before(async () => {
  chart = owned.use(await installChart());
  await chart.helm("upgrade", "s3csi", CHART, "--set", "headroom.enabled=true");
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  ({ bench, signal } = owned.use(await startScene(chart, access, log, HEADROOM)));
}, TIMEOUT);
after(() => owned.disposeAsync());

/** The pod of the driver, once it is as asked. */
function until(isIt: (pod: Pod) => boolean): Promise<Pod> {
  return bench.mountpointPods.until((list) => list.values().find(isIt), signal);
}

const isOwned = ({ metadata }: Pod) =>
  metadata?.ownerReferences?.some(({ kind }) => kind === "Namespace") === true;

/** The watch may still show the pod as it was before a write. */
const versionOf = ({ metadata }: Pod) => BigInt(metadata?.resourceVersion ?? 0);

async function untilEvicted(...names: readonly string[]): Promise<void> {
  const said = await chart.kubectl("drain", NODE, ...FLAGS, SELECTOR);
  for (const name of names) {
    assert.match(said, new RegExp(`evicting pod ${MOUNTPOINTS}/${name}|pod/${name} evicted`));
  }
}

test("kubectl drain evicts Mountpoint Pods without --force", TIMEOUT, async () => {
  await bench.volume("pv-1");
  const { pod } = await bench.served(await bench.workload("w-1", "pv-1"));
  await bench.runMountpointPod(pod);
  const place = { namespace: MOUNTPOINTS, name: pod };
  await until((made) => made.metadata?.name === pod && isOwned(made));
  await untilEvicted(pod);

  // As an earlier release has left it.
  const unowned = { metadata: { ownerReferences: null } };
  const patched = await chart.admin.patch(PODS, place, unowned, signal);
  const isLater = (made: Pod) => versionOf(made) > versionOf(patched);
  await until((made) => made.metadata?.name === pod && isOwned(made) && isLater(made));
  await untilEvicted(pod);
});

test("kubectl drain evicts headroom without --force", TIMEOUT, async () => {
  await bench.volume("pv-room");
  const workload: Pod = {
    metadata: { name: "room", namespace: WORKLOADS },
    spec: {
      schedulingGates: [{ name: HEADROOM_GATE }],
      containers: [{ name: "app", image: "app" }],
      volumes: [{ name: "s3", persistentVolumeClaim: { claimName: claimNameOf("pv-room") } }],
    },
  };
  await chart.admin.create(PODS, workload, signal);
  const made = await until(({ metadata }) => metadata?.name?.startsWith("hr-") === true);
  const name = made.metadata?.name ?? "";
  await until((pod) => pod.metadata?.name === name && isOwned(pod));
  await bench.schedule(MOUNTPOINTS, name);
  await untilEvicted(name);
});

test("a Node that registers anew leaves its Mountpoint Pods alone", TIMEOUT, async () => {
  await bench.volume("pv-2");
  const { pod } = await bench.served(await bench.workload("w-2", "pv-2"));
  await bench.runMountpointPod(pod);
  const node = await chart.admin.get(NODES, { name: NODE }, signal);
  const uid = node.metadata?.uid ?? "";
  // The garbage collector has seen the Node go once this has gone with it.
  const place = { namespace: WORKLOADS, name: "of-the-node" };
  const ownerReferences = [{ apiVersion: "v1", kind: "Node", name: NODE, uid }];
  await chart.admin.create(LEASES, { metadata: { ...place, ownerReferences } }, signal);
  const follow = { client: chart.admin, log, selection: { namespace: WORKLOADS } };
  const leases = new WatchedList({ ...follow, resource: LEASES, project: (lease) => lease });
  const following = leases.start(signal);
  following.catch((error: unknown) => log.error(error));
  await leases.until((list) => list.get(`${WORKLOADS}/of-the-node`), signal);
  await chart.admin.delete(NODES, { name: NODE }, {}, signal);
  await chart.admin.create(NODES, { metadata: { name: NODE }, spec: {} }, signal);
  await leases.until(
    (list) => list.get(`${WORKLOADS}/of-the-node`) === undefined || undefined,
    signal,
  );
  const { metadata } = await chart.admin.get(PODS, { namespace: MOUNTPOINTS, name: pod }, signal);
  assert.equal(metadata?.deletionTimestamp, undefined);
});
