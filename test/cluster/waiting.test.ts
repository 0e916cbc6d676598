import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import {
  DRIVER_NAMESPACE,
  driverLog,
  staticVolume,
  workloadPod,
} from "../../tools/stack/driver.ts";
import { allPids } from "../../tools/stack/processes.ts";
import {
  assertNothingLeft,
  makeBucket,
  removePods,
  shell,
  silenceS3,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "waiting";
const CONTROLLER = "deployment/s3csi-controller";
/** The time that a pod's end may take while another pod of its volume waits. */
const REMOVED_WITHIN_MS = 10_000;
const TOLD_WITHIN_MS = 10_000;
/** The kubelet's longest pause between two calls is 122 s. */
const HEALED_WITHIN_MS = 150_000;
const BURST_WITHIN_MS = 240_000;
const BURST_VOLUMES = Array.from({ length: 10 }, (_, i) => `burst-${i}`);
const BURST_PODS = Array.from({ length: 50 }, (_, i) => `pod-${i}`);
/** How long attachments take in the burst, from the first publish on. */
const ATTACHMENTS_AFTER_MS = 5_000;
/** More than any machine has. */
const NO_ROOM = { mountpointContainerResourcesRequestsMemory: "900Ti" };

let it: TestCluster;
before(async () => {
  it = await startTestCluster();
  await makeBucket(it.cluster.s3, BUCKET);
  await it.cluster.apply(
    ...["shared", ...BURST_VOLUMES].flatMap((name) => staticVolume(name, BUCKET)),
    ...staticVolume("no-room", BUCKET, { attributes: NO_ROOM }),
  );
  const claims = ["shared", "no-room", ...BURST_VOLUMES];
  await Promise.all(claims.map((name) => it.watch.untilBound(name)));
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

test("a pod is removed soon while another one of its volume has no attachment", async (t) => {
  await it.cluster.apply(workloadPod("leaver", "shared", BUSYBOX_IMAGE));
  await it.watch.untilReady("leaver");
  await scaleController(0);
  // With a group of its own it can't share the Mountpoint Pod that is there.
  await it.cluster.apply(workloadPod("waiter", "shared", BUSYBOX_IMAGE, { fsGroup: 1234 }));
  await untilPublishBegins(["waiter"]);
  const tookMs = await timeOf(() => removePods(it, "leaver"));
  t.diagnostic(`removed after ${tookMs} ms`);
  assert(tookMs < REMOVED_WITHIN_MS, `removed after ${tookMs} ms`);
  const words = /Unavailable.*Timed out waiting for MountpointS3PodAttachment/;
  await it.watch.untilTold("waiter", words);
  await scaleController(1);
  await it.watch.untilReady("waiter", HEALED_WITHIN_MS);
  assert.equal(await shell(it, "waiter", "echo here > /data/here; cat /data/here"), "here\n");
  await removePods(it, "waiter");
});

test("a pod is removed soon while another one of its volume waits for S3", async (t) => {
  await it.cluster.apply(workloadPod("reader", "shared", BUSYBOX_IMAGE));
  await it.watch.untilReady("reader");
  {
    await using _silent = await silenceS3(it);
    await it.cluster.apply(workloadPod("newcomer", "shared", BUSYBOX_IMAGE, { fsGroup: 4321 }));
    await untilPublishBegins(["newcomer"]);
    const tookMs = await timeOf(() => removePods(it, "reader"));
    t.diagnostic(`removed after ${tookMs} ms`);
    assert(tookMs < REMOVED_WITHIN_MS, `removed after ${tookMs} ms`);
    await it.watch.untilTold("newcomer", new RegExp(new URL(it.cluster.s3.endpoint).host));
  }
  await it.watch.untilReady("newcomer", HEALED_WITHIN_MS);
  await removePods(it, "newcomer");
});

test("a Mountpoint Pod without room is told soon, and its pods can be removed", async (t) => {
  const pods = ["no-room-1", "no-room-2"];
  await it.cluster.apply(...pods.map((name) => workloadPod(name, "no-room", BUSYBOX_IMAGE)));
  const words = /Unavailable.*to be scheduled on this node: Unschedulable: .*Insufficient memory/;
  const told = Promise.any(pods.map((name) => it.watch.untilTold(name, words)));
  const toldMs = await timeOf(() => told);
  const removedMs: number[] = [];
  for (const name of pods) removedMs.push(await timeOf(() => removePods(it, name)));
  t.diagnostic(`told after ${toldMs} ms, removed after ${removedMs.join(" and ")} ms`);
  assert(toldMs < TOLD_WITHIN_MS, `told after ${toldMs} ms`);
  assert(Math.max(...removedMs) < REMOVED_WITHIN_MS, `removed after ${removedMs.join(", ")} ms`);
});

test("fifty pods whose attachments take 5 s: no publish is sent away", async (t) => {
  const controller = await controllerPid();
  process.kill(controller, "SIGSTOP");
  const startedMs = performance.now();
  const applied = it.cluster.apply(
    ...BURST_PODS.map((name, i) =>
      workloadPod(name, BURST_VOLUMES[i % BURST_VOLUMES.length] ?? "", BUSYBOX_IMAGE),
    ),
  );
  // The first publish begins while kubectl still creates pods, and its time limit runs from then.
  const attached = untilPublishBegins(BURST_PODS, BURST_WITHIN_MS)
    .then(() => sleep(ATTACHMENTS_AFTER_MS))
    .then(() => process.kill(controller, "SIGCONT"));
  await Promise.all([applied, attached]);
  await Promise.all(BURST_PODS.map((name) => it.watch.untilReady(name, BURST_WITHIN_MS)));
  t.diagnostic(`all are ready after ${Math.round(performance.now() - startedMs)} ms`);
  const volumes = new Set(BURST_VOLUMES);
  const lines = (await driverLog(it.cluster, "node")).split("\n").filter((line) => line !== "");
  const sentAway = lines
    .map((line) => JSON.parse(line) as Record<string, string>)
    .filter(({ msg, method, time = "" }) => {
      const isOfBurst = Date.parse(time) >= performance.timeOrigin + startedMs;
      return msg === "call failed" && method === "NodePublishVolume" && isOfBurst;
    });
  assert.deepEqual(sentAway, []);
  assert.equal(it.watch.mountpointPods().length, volumes.size);
  await removePods(it, ...BURST_PODS);
});

test("in the end nothing is left", async () => {
  await assertNothingLeft(it);
});

async function scaleController(replicas: number): Promise<void> {
  const target = [CONTROLLER, "--namespace", DRIVER_NAMESPACE];
  await it.cluster.kubectl(["scale", ...target, `--replicas=${replicas}`]);
  const isSo = () => controllerPods().length === replicas;
  await it.watch.until(it.watch.pods, `there are ${replicas} controllers`, isSo);
}

function controllerPods(): string[] {
  const pods = [...it.watch.pods.values()].filter(
    ({ metadata }) =>
      metadata?.namespace === DRIVER_NAMESPACE &&
      metadata.labels?.["app.kubernetes.io/component"] === "controller",
  );
  return pods.map(({ metadata }) => metadata?.uid ?? "");
}

/** By the kernel's word: its cgroup names the pod. */
async function controllerPid(): Promise<number> {
  const [uid = "none"] = controllerPods();
  for (const pid of await allPids()) {
    const cgroup = readOf(pid, "cgroup");
    const isThere = cgroup.includes(uid) || cgroup.includes(uid.replaceAll("-", "_"));
    if (isThere && readOf(pid, "cmdline").split("\0").includes("controller")) return pid;
  }
  return assert.fail("the controller runs");
}

function readOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return ""; // it has just ended
  }
}

/**
 * Waits for the first publish of these pods. The kubelet makes a volume's directory before it
 * calls; no event tells of either.
 */
async function untilPublishBegins(
  pods: readonly string[],
  withinMs = TOLD_WITHIN_MS,
): Promise<void> {
  const root = `/proc/${it.cluster.machine.pid}/root/var/lib/kubelet/pods`;
  const signal = AbortSignal.timeout(withinMs);
  const hasBegun = (pod: string) => {
    const volumes = join(root, it.watch.pod(pod)?.metadata?.uid ?? "", "volumes/kubernetes.io~csi");
    return globSync("*/vol_data.json", { cwd: volumes }).length > 0;
  };
  while (!pods.some(hasBegun)) await sleep(50, undefined, { signal });
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return Math.round(performance.now() - startedMs);
}
