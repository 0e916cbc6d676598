import assert from "node:assert/strict";
import { readFileSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PODS } from "../../src/kube/resource.ts";
import { ANNOTATION } from "../../src/volume/names.ts";
import { run } from "../../tools/run.ts";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { MOUNTPOINT_NAMESPACE, isReady } from "../../tools/stack/cluster-watch.ts";
import { DRIVER_NAMESPACE, staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import { allPids, killIfThere, startTimeOf } from "../../tools/stack/processes.ts";
import {
  assertNothingLeft,
  makeBucket,
  removePods,
  shell,
  silenceS3,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "survive";
const HOG = join(import.meta.dirname, "memory-hog.ts");
/** For a Mountpoint Pod that takes no more from a writer than 32 MiB ahead of S3. */
const SMALL = { mountpointContainerResourcesLimitsMemory: "256Mi" };
const SPOOL_FULL_BYTES = 24 << 20;
const LOOK_AGAIN_AFTER_MS = 500;
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

/** Opens its file while S3 answers, and goes on when it does no more. */
const WRITE_IN_TWO_PARTS = `{
  cat /tmp/seed; touch /tmp/begun; while ! test -e /tmp/go; do sleep 0.1; done; cat /tmp/seed
} > /data/squeezed`;

test("the kernel kills for memory while the spool is full: the writer does not notice", async () => {
  await it.cluster.apply(...staticVolume("small", BUCKET, { attributes: SMALL }));
  await it.cluster.apply(workloadPod("squeezed", "small", BUSYBOX_IMAGE));
  await it.watch.untilReady("squeezed");
  await shell(it, "squeezed", SEED);
  const digest = await shell(it, "squeezed", `{ ${repeated(128)}; } | sha256sum`);
  const { engine } = await processesOf(mountpointPod("small"));
  const writing = shell(it, "squeezed", WRITE_IN_TWO_PARTS);
  const failed = new AbortController();
  writing.catch((error: unknown) => failed.abort(error));
  await shell(it, "squeezed", "while ! test -e /tmp/begun; do sleep 0.1; done");
  {
    await using _silence = await silenceS3(it);
    await shell(it, "squeezed", "touch /tmp/go");
    await untilSpoolIsFull(engine, failed.signal);
    await untilKilledForMemory(engine);
  }
  await writing;
  assert.equal(await shell(it, "squeezed", "sha256sum < /data/squeezed"), digest);
  assert.equal(it.watch.pod("squeezed")?.status?.containerStatuses?.[0]?.restartCount, 0);
});

test("in the end nothing is left", async () => {
  await removePods(it, "reader", "writer", "squeezed");
  await assertNothingLeft(it);
});

/** The one that serves the volume now. */
function mountpointPod(volume = "data"): { readonly name: string; readonly uid: string } {
  const live = it.watch
    .mountpointPods()
    .filter(
      ({ metadata }) =>
        metadata?.deletionTimestamp === undefined &&
        metadata?.annotations?.[ANNOTATION.volumeName] === volume,
    );
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
    if (words.includes("engine")) found.engine = pid;
  }
  assert(found.mounter > 0 && found.engine > 0, "the Mountpoint Pod runs");
  return found;
}

/** S3 is silent, and the writer has been made to wait: no page comes any more. */
async function untilSpoolIsFull(engine: number, signal: AbortSignal): Promise<void> {
  const dir = `/proc/${engine}/fd`;
  const isSpool = (fd: string) => readlinkSync(join(dir, fd)).includes("s3csi-spool");
  const spool = join(dir, readdirSync(dir).find(isSpool) ?? "none");
  const bytesNow = () => statSync(spool).blocks * 512;
  let last = 0;
  for (let now = bytesNow(); now < SPOOL_FULL_BYTES || now !== last; now = bytesNow()) {
    last = now;
    await sleep(LOOK_AGAIN_AFTER_MS, undefined, { signal });
  }
}

/** Who takes the memory may be the last of those that are killed for it. */
async function untilKilledForMemory(engine: number): Promise<void> {
  await run(process.execPath, [HOG, memoryCgroupOf(engine)]).catch((error: unknown) => {
    assert.match(String(error), /ended with SIGKILL/);
  });
  assert.equal(await startTimeOf(engine), undefined, "the engine was killed");
}

/** The file by which a process joins the cgroup whose memory the engine is counted in. */
function memoryCgroupOf(engine: number): string {
  const lines = readOf(engine, "cgroup");
  const v1 = /^\d+:memory:(.*)$/m.exec(lines)?.[1];
  const own = v1 === undefined ? (/^0::(.*)$/m.exec(lines)?.[1] ?? "") : `/memory${v1}`;
  return join("/sys/fs/cgroup", own, "cgroup.procs");
}

function readOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return ""; // it has just ended
  }
}
