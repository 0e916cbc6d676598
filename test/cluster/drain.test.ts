import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Pod } from "../../src/kube/resource.ts";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import { assertNothingLeft, makeBucket, startTestCluster } from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "drained";
const WORKLOADS = ["first", "second"];
const ROUNDS = 3;
/** A Mountpoint Pod that nobody lets go ends after its grace period of 600 s. */
const DRAINED_WITHIN_S = 60;

let it: TestCluster;
before(async () => {
  it = await startTestCluster();
  await makeBucket(it.cluster.s3, BUCKET);
  await it.cluster.apply(...staticVolume("volume", BUCKET));
  await it.watch.untilBound("volume");
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

test("kubectl drain without --force ends workloads and their Mountpoint Pods", async (t) => {
  for (let round = 1; round <= ROUNDS; round++) {
    await it.cluster.apply(...WORKLOADS.map(deploymentOf));
    const pods = await Promise.all(WORKLOADS.map((name) => untilServed(name, round)));
    const startedMs = performance.now();
    await it.cluster.kubectl([
      "drain",
      "node1",
      "--ignore-daemonsets",
      "--delete-emptydir-data",
      `--timeout=${DRAINED_WITHIN_S}s`,
      // A cluster has a second node to which the controller moves; this one has none.
      "--pod-selector=app.kubernetes.io/component!=controller",
    ]);
    t.diagnostic(`drained after ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
    await Promise.all(pods.map((pod) => it.watch.untilGone(pod)));
    await assertNothingLeft(it);
    // A replacement waits for the cordoned node. If it ran, the next round would find it.
    const deleted = WORKLOADS.map((name) => `deployment/${name}`);
    await it.cluster.kubectl(["delete", ...deleted, "--cascade=foreground", "--timeout=60s"]);
    await it.watch.until(it.watch.pods, "no workload is left", () => workloads().length === 0);
    await it.cluster.kubectl(["uncordon", "node1"]);
  }
});

function workloads(): Pod[] {
  const pods = [...it.watch.pods.values()];
  return pods.filter(({ metadata }) => WORKLOADS.includes(metadata?.labels?.["app"] ?? ""));
}

/** The name of the deployment's only pod, once it writes to the volume. */
async function untilServed(name: string, round: number): Promise<string> {
  await it.cluster.kubectl(["rollout", "status", `deployment/${name}`, "--timeout=60s"]);
  const target = `deployment/${name}`;
  await it.cluster.kubectl(["exec", target, "--", "sh", "-ec", `date > /data/${name}-${round}`]);
  const pod = await it.cluster.kubectl(["get", "pod", "-l", `app=${name}`, "-o", "name"]);
  assert.match(pod, /^pod\/\S+\n$/);
  return pod.trim().replace("pod/", "");
}

function deploymentOf(name: string): object {
  const { spec } = workloadPod(name, "volume", BUSYBOX_IMAGE) as { spec: object };
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { ...spec, restartPolicy: "Always" } },
    },
  };
}
