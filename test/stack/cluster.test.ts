import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { IMAGE, IMAGE_ARCHIVE } from "../../tools/image.ts";
import { startCluster } from "../../tools/stack/cluster.ts";
import { reapDead } from "../../tools/stack/instance.ts";
import { NOTHING, leftovers } from "./leftovers.ts";
import { startRunner } from "./runner.ts";

const NODE_READY_LIMIT_MS = 30_000;
const SYSCTLS = ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"];

const sysctls = () => Promise.all(SYSCTLS.map((name) => readFile(`/proc/sys/${name}`, "utf8")));

test("a pod of our image runs in the cluster, and nothing is left when it ends", async () => {
  const before = await sysctls();
  {
    const startedMs = performance.now();
    await using cluster = await startCluster();
    const tookMs = performance.now() - startedMs;
    assert(tookMs < NODE_READY_LIMIT_MS, `node Ready after ${tookMs} ms`);
    await cluster.importImage(IMAGE_ARCHIVE);
    await cluster.apply(skeletonPod());
    await cluster.waitFor("pod/skeleton", "--for=condition=Ready");
    await cluster.firstLine(["logs", "--follow", "skeleton"], /serving gRPC/);
    const second = startCluster();
    await assert.rejects(second, /a cluster is already running on this machine .*only one/s);
  }
  assert.deepEqual(await leftovers("cluster"), NOTHING);
  assert.deepEqual(await sysctls(), before, "the machine's own settings are as before");
});

test("after kill -9 of its runner, the next start leaves nothing of the killed one", async () => {
  const runner = await startRunner("cluster-runner.ts", "pod runs");
  const during = await leftovers("cluster");
  for (const kind of ["processes", "links", "cgroups", "directories"]) {
    assert.notDeepEqual(during[kind], [], `the test looks in the right place for ${kind}`);
  }
  await runner.killHard();
  await reapDead();
  assert.deepEqual(await leftovers("cluster"), NOTHING);
});

function skeletonPod(): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "skeleton" },
    spec: {
      securityContext: { runAsNonRoot: true },
      containers: [
        {
          name: "s3csi",
          image: IMAGE,
          imagePullPolicy: "Never",
          args: ["controller", "--endpoint=unix:///tmp/csi.sock", "--reconcile=false"],
          volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
        },
      ],
      volumes: [{ name: "tmp", emptyDir: {} }],
    },
  };
}
