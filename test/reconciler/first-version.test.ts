import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { EVENTS, PODS } from "../../src/kube/resource.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import { DRIVER_NAME, mountpointPodNameOf } from "../../src/volume/names.ts";
import { installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { startController } from "./controller-life.ts";
import { Bench, WORKLOADS } from "./objects.ts";

const TIMEOUT = { timeout: 180_000 };
const WORKLOAD_COUNT = 1_000;
const VOLUME_COUNT = 50;
const AT_ONCE = 20;

const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let bench: Bench;

before(async () => {
  chart = await installChart();
  bench = new Bench(chart.admin, signal);
  await bench.start();
}, TIMEOUT);
after(async () => {
  stop.abort();
  await chart[Symbol.asyncDispose]();
});

async function setStatus(name: string, status: object): Promise<void> {
  await chart.admin.patchStatus(PODS, { namespace: WORKLOADS, name }, { status }, signal);
}

const sandbox = (status: string) => [{ type: "PodReadyToStartContainers", status }];
const container = { name: "app", ready: false, restartCount: 0, image: "", imageID: "" };
const running = [{ ...container, state: { running: {} } }];
const crashing = [
  { ...container, restartCount: 7, state: { waiting: { reason: "CrashLoopBackOff" } } },
];
/** The status that kubelets give pods whose volumes are published. */
const STARTED = [
  { phase: "Running", conditions: sandbox("True"), containerStatuses: running },
  { phase: "Running", conditions: sandbox("True"), containerStatuses: crashing },
  { phase: "Pending", conditions: sandbox("True"), initContainerStatuses: running },
  { phase: "Running", containerStatuses: running },
];

async function inTurns(count: number, work: (i: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < count; i += AT_ONCE) {
    const turn = Array.from({ length: Math.min(AT_ONCE, count - i) }, (_, j) => work(i + j));
    await Promise.all(turn);
  }
}

test(
  `${WORKLOAD_COUNT} workloads on mounts of the first version are left alone`,
  TIMEOUT,
  async () => {
    // Each tenth volume has settings that only the first version took.
    await inTurns(VOLUME_COUNT, (i) =>
      i % 10 === 0
        ? bench.volume(`pv-${i}`, [], { bucketName: "bucket", authenticationSource: "pod" })
        : bench.volume(`pv-${i}`),
    );
    await inTurns(WORKLOAD_COUNT, async (i) => {
      await bench.workload(`old-${i}`, `pv-${i % VOLUME_COUNT}`);
      await setStatus(`old-${i}`, STARTED[i % STARTED.length] ?? {});
    });
    await using _controller = startController(chart, signal);
    // The queue is in order: when the last one is served, all of the others were looked at.
    await bench.volume("pv-last");
    const last = await bench.served(await bench.workload("last", "pv-last"));
    const listed = async () => {
      const { items: attachments } = await chart.admin.list(ATTACHMENTS, {}, signal);
      return attachments.map(({ metadata }) => metadata.name).toSorted();
    };
    assert.deepEqual(await listed(), [last.attachment]);
    const pods = Array.from(bench.mountpointPods.values(), (pod) => pod.metadata?.name);
    assert.deepEqual(pods, [last.pod]);
    const { items: events } = await chart.admin.list(EVENTS, { namespace: WORKLOADS }, signal);
    const ours = events.filter((event) => event.reportingController === DRIVER_NAME);
    assert.deepEqual(
      ours.map(({ regarding, reason }) => `${regarding?.name} ${reason}`),
      [],
    );

    await bench.removeWorkload("old-1");
    const again = await bench.workload("old-1", "pv-1");
    const { pod, attachment } = await bench.served(again);
    assert.equal(pod, mountpointPodNameOf(again, "pv-1"));
    const { spec } = await chart.admin.get(ATTACHMENTS, { name: attachment }, signal);
    assert.deepEqual(Object.keys(spec.mountpointS3PodAttachments), [pod]);
    assert.equal(
      spec.mountpointS3PodAttachments[pod]?.length,
      1,
      "those that run stay as they are",
    );

    const rebooted = await bench.uidOf("old-2");
    await setStatus("old-2", { conditions: sandbox("False") });
    await bench.served(rebooted); // its kubelet waits for the volume once more
    assert.equal((await listed()).length, 3);

    await inTurns(WORKLOAD_COUNT, (i) => bench.removeWorkload(`old-${i}`));
    await bench.removeWorkload("last");
    await bench.nothingIsLeft();
  },
);

test("an attachment that was deleted under its workloads comes back", TIMEOUT, async () => {
  await bench.volume("pv-hand");
  const controller = startController(chart, signal);
  const uids = [
    await bench.workload("hand-0", "pv-hand"),
    await bench.workload("hand-1", "pv-hand"),
  ];
  const [first = "", second = ""] = uids;
  const { pod, attachment } = await bench.served(first);
  assert.deepEqual(await bench.served(second), { pod, attachment });
  await bench.runMountpointPod(pod);
  for (const name of ["hand-0", "hand-1"]) await setStatus(name, STARTED[0] ?? {});
  const uidOf = () => bench.attachments.get(attachment)?.metadata.uid;
  const restored = async (old: string | undefined) => {
    await bench.attachments.until(
      (list) => (list.get(attachment)?.metadata.uid ?? old) !== old || undefined,
      signal,
    );
    await bench.listed(attachment, (lists) => uids.every((uid) => lists[pod]?.includes(uid)));
  };

  const made = uidOf();
  await chart.admin.delete(ATTACHMENTS, { name: attachment }, {}, signal);
  await restored(made);

  await controller[Symbol.asyncDispose]();
  const stored = uidOf();
  await chart.admin.delete(ATTACHMENTS, { name: attachment }, {}, signal);
  await using _next = startController(chart, signal); // which has never seen it
  await restored(stored);
  for (const name of ["hand-0", "hand-1"]) await bench.removeWorkload(name);
  await bench.marked(pod);
  await bench.endMountpointPod(pod, "Succeeded");
  await bench.nothingIsLeft();
});
