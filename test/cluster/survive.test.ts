import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { PODS } from "../../src/kube/resource.ts";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { MOUNTPOINT_NAMESPACE, isReady } from "../../tools/stack/cluster-watch.ts";
import { DRIVER_NAMESPACE, staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import { allPids, killIfThere } from "../../tools/stack/processes.ts";
import {
  assertNothingLeft,
  makeBucket,
  removePods,
  shell,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "survive";
/** FULL=1 is the long form. */
const [READ_MIB, WRITE_MIB] = process.env["FULL"] === "1" ? [2048, 1024] : [512, 256];
/** The same bytes again and again, from a small file in the pod: their digest is known. */
const SEED = "dd if=/dev/urandom of=/tmp/seed bs=1M count=64 2>/dev/null";
const repeated = (mib: number) => `for i in $(seq ${mib / 64}); do cat /tmp/seed; done`;

let it: TestCluster;
let expected: { readonly read: string; readonly written: string };
before(async () => {
  it = await startTestCluster();
  await makeBucket(it.cluster.s3, BUCKET);
  await it.cluster.apply(...staticVolume("data", BUCKET, { mountOptions: ["allow-delete"] }));
  await it.cluster.apply(
    workloadPod("reader", "data", BUSYBOX_IMAGE),
    workloadPod("writer", "data", BUSYBOX_IMAGE),
  );
  await Promise.all(["reader", "writer"].map((name) => it.watch.untilReady(name)));
  await shell(it, "reader", `${SEED}; { ${repeated(READ_MIB)}; } > /data/big`);
  await shell(it, "writer", SEED);
  expected = {
    read: await shell(it, "reader", `{ ${repeated(READ_MIB)}; } | sha256sum`),
    written: await shell(it, "writer", `{ ${repeated(WRITE_MIB)}; } | sha256sum`),
  };
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

interface Harm {
  readonly name: string;
  /** Done in the middle of reading and writing; resolves when it is done, not when it is over. */
  readonly act: () => Promise<void>;
}

const HARMS: readonly Harm[] = [
  {
    name: "the engine is killed",
    act: async () => killIfThere((await processesOf(mountpointPod())).engine),
  },
  {
    name: "all processes of the Mountpoint container are killed at once",
    async act() {
      const { engine, mounter } = await processesOf(mountpointPod());
      for (const pid of [mounter, engine]) killIfThere(pid);
    },
  },
  {
    name: "the node service's pod is deleted",
    async act() {
      const [node] = nodeServicePods();
      assert(node !== undefined);
      await deletePod(DRIVER_NAMESPACE, node);
      await it.watch.until(it.watch.pods, "another node service is ready", () => {
        const [next] = nodeServicePods();
        return next !== undefined && next !== node && isReady(it.watch.pod(next, DRIVER_NAMESPACE));
      });
    },
  },
  {
    name: "and once more all of the container, with a node service that was born later",
    async act() {
      const { engine, mounter } = await processesOf(mountpointPod());
      for (const pid of [mounter, engine]) killIfThere(pid);
    },
  },
  {
    name: "the Mountpoint Pod is deleted: a successor takes over",
    act: async () => deletePod(MOUNTPOINT_NAMESPACE, mountpointPod().name),
  },
];

for (const { name, act } of HARMS) {
  test(`one pod reads, another writes: ${name}, and neither notices`, async (t) => {
    const reading = shell(it, "reader", "sha256sum < /data/big");
    const writing = shell(it, "writer", `{ ${repeated(WRITE_MIB)}; } > /data/out; echo written`);
    await shell(it, "writer", "while ! test -s /data/out 2>/dev/null; do sleep 0.1; done"); // began
    const startedMs = performance.now();
    await act();
    const [digest] = await Promise.all([reading, writing]);
    t.diagnostic(`done ${Math.round(performance.now() - startedMs)} ms later`);
    assert.equal(digest, expected.read);
    assert.equal(await shell(it, "writer", "sha256sum < /data/out"), expected.written);
    await shell(it, "writer", "rm /data/out");
    for (const pod of ["reader", "writer"]) {
      assert.equal(it.watch.pod(pod)?.status?.containerStatuses?.[0]?.restartCount, 0, pod);
    }
  });
}

test("in the end nothing is left", async () => {
  await removePods(it, "reader", "writer");
  await assertNothingLeft(it);
});

/** The one that serves now. */
function mountpointPod(): { readonly name: string; readonly uid: string } {
  const pods = it.watch.mountpointPods();
  const live = pods.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  const { name = "", uid = "" } = live.at(-1)?.metadata ?? {};
  return { name, uid };
}

function nodeServicePods(): string[] {
  const pods = [...it.watch.pods.values()].filter(
    ({ metadata }) =>
      metadata?.namespace === DRIVER_NAMESPACE &&
      metadata.deletionTimestamp === undefined &&
      metadata.labels?.["app.kubernetes.io/component"] === "node",
  );
  return pods.map(({ metadata }) => metadata?.name ?? "");
}

async function deletePod(namespace: string, name: string): Promise<void> {
  await it.watch.client.delete(PODS, { namespace, name }, {}, AbortSignal.timeout(30_000));
}

/** Of a Mountpoint Pod, by the kernel's word: its cgroup names the pod. */
async function processesOf({ uid }: { readonly uid: string }) {
  const found = { mounter: -1, engine: -1 };
  for (const pid of await allPids()) {
    const cgroup = readOf(pid, "cgroup");
    if (!cgroup.includes(uid) && !cgroup.includes(uid.replaceAll("-", "_"))) continue;
    const words = readOf(pid, "cmdline").split("\0");
    if (words.includes("mounter")) found.mounter = pid;
    if (words.includes("mount")) found.engine = pid;
  }
  assert(found.mounter > 0 && found.engine > 0, "the Mountpoint Pod runs");
  return found;
}

function readOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return ""; // it has just ended
  }
}
