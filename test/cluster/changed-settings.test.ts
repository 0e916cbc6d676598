import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PutObjectCommand } from "@aws-sdk/client-s3";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { MOUNTPOINT_NAMESPACE } from "../../tools/stack/cluster-watch.ts";
import {
  DRIVER_NAMESPACE,
  driverSecret,
  staticVolume,
  workloadPod,
} from "../../tools/stack/driver.ts";
import { HOST_ADDRESS } from "../../tools/stack/machine.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import { TlsFront } from "../engine/tls-front.ts";
import {
  assertNothingLeft,
  makeBucket,
  removePods,
  shell,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "changed-settings";
const CA_CONFIG_MAP = "s3-ca";
const MIB = 1 << 20;
const LARGE_BYTES = 100 * MIB;
/** The kubelet's longest pause between two publishes is 122 s. */
const HEALED_WITHIN_MS = 150_000;
/** The kubelet computes the sizes of a pod's volumes about once a minute. */
const MEASURED_WITHIN_MS = 150_000;
const LOOK_AGAIN_MS = 500;

let it: TestCluster;
let front: TlsFront;
before(async () => {
  it = await startTestCluster(undefined, async ({ s3 }) => {
    front = await TlsFront.start(s3.endpoint, HOST_ADDRESS, { host: HOST_ADDRESS, port: 0 });
    return {
      hasSecret: false,
      values: { "s3.endpointUrl": front.url, "tls.caCertConfigMap": CA_CONFIG_MAP },
      files: { "tls.caCertData": front.ca },
    };
  });
  await makeBucket(it.cluster.s3, BUCKET);
  const body = { Bucket: BUCKET, Key: "large", Body: Buffer.alloc(LARGE_BYTES, "s3csi") };
  await clientOf(it.cluster.s3).send(new PutObjectCommand(body));
  const cached = { cache: "emptyDir", cacheEmptyDirSizeLimit: "64Mi" };
  await it.cluster.apply(
    STORAGE_CLASS,
    ...staticVolume("shared", BUCKET),
    ...staticVolume("cached", BUCKET, { attributes: cached }),
  );
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
  await front?.[Symbol.asyncDispose]();
});

test("a Secret that is created after the install is used without a restart", async () => {
  const driver = processesOfDriver();
  assert.equal(driver.length, 2, "a controller and a node service");
  await it.cluster.apply(claim("early"), workloadPod("reader", "shared", BUSYBOX_IMAGE));
  await it.watch.untilTold("early", /no credentials|has no (key )?access_key_id|s3-secret/);
  await it.watch.untilTold("reader", /the driver has no credentials/);
  await it.cluster.apply(driverSecret(it.cluster.s3));
  await syncVolumesOf(driverPods());
  await it.watch.untilReady("reader", HEALED_WITHIN_MS);
  await it.watch.untilBound("early");
  assert.equal(await shell(it, "reader", "echo here > /data/here; cat /data/here"), "here\n");
  assert.deepEqual(processesOfDriver(), driver);
});

test("a CA that is replaced reaches the controller and running mounts", async () => {
  const [driver, mounts] = [processesOfDriver(), processesOf(it.watch.mountpointPods())];
  const ca = await readFile(await front.renew(), "utf8");
  const patch = JSON.stringify({ data: { "ca-bundle.crt": ca } });
  for (const namespace of [DRIVER_NAMESPACE, MOUNTPOINT_NAMESPACE]) {
    const target = ["configmap", CA_CONFIG_MAP, "--namespace", namespace];
    await it.cluster.kubectl(["patch", ...target, "--patch", patch]);
  }
  const written = shell(it, "reader", "echo new > /data/new; cat /data/new; head -c4 /data/large");
  await syncVolumesOf([...driverPods(), ...it.watch.mountpointPods()]);
  await it.cluster.apply(claim("late"));
  assert.equal(await written, "new\ns3cs");
  await it.watch.untilBound("late");
  assert.deepEqual(processesOf(it.watch.mountpointPods()), mounts);
  assert.deepEqual(processesOfDriver(), driver);
});

test("a Mountpoint Pod is not evicted for a full cache, a pod beyond its limit is", async (t) => {
  await it.cluster.apply(workloadPod("caching", "cached", BUSYBOX_IMAGE), NEIGHBOUR);
  await Promise.all([it.watch.untilReady("caching"), it.watch.untilReady("neighbour")]);
  assert.equal(await shell(it, "caching", "wc -c < /data/large"), `${LARGE_BYTES}\n`);
  const usedMib = await untilCacheIsMeasured(40 * MIB);
  t.diagnostic(`${usedMib.toFixed(1)} of 64 MiB are used, says the kubelet`);
  await shell(it, "neighbour", "dd if=/dev/zero of=/scratch/file bs=1M count=32");
  const isEvicted = () => it.watch.pod("neighbour")?.status?.reason === "Evicted";
  await it.watch.until(it.watch.pods, "the neighbour is evicted", isEvicted, MEASURED_WITHIN_MS);
  const phases = it.watch.mountpointPods().map(({ status }) => status?.phase);
  assert.deepEqual(phases, ["Running", "Running"]);
  assert.equal(await shell(it, "caching", "head -c5 /data/large"), "s3csi");
});

test("in the end nothing is left", async () => {
  await removePods(it, "reader", "caching", "neighbour");
  await it.cluster.kubectl(["delete", "pvc", "early", "late", "--timeout=60s"]);
  await assertNothingLeft(it);
});

const STORAGE_CLASS = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name: "s3" },
  provisioner: "s3.csi.scality.com",
};

/** Without the driver: may use 16 MiB of the node's disk. */
const NEIGHBOUR = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "neighbour", namespace: "default" },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: "shell",
        image: BUSYBOX_IMAGE,
        imagePullPolicy: "Never",
        volumeMounts: [{ name: "scratch", mountPath: "/scratch" }],
      },
    ],
    volumes: [{ name: "scratch", emptyDir: { sizeLimit: "16Mi" } }],
  },
};

function claim(name: string): object {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default" },
    spec: {
      accessModes: ["ReadWriteMany"],
      storageClassName: "s3",
      resources: { requests: { storage: "1Gi" } },
    },
  };
}

type Pods = ReturnType<TestCluster["watch"]["mountpointPods"]>;

function driverPods(): Pods {
  return [...it.watch.pods.values()].filter(
    ({ metadata }) =>
      metadata?.namespace === DRIVER_NAMESPACE &&
      metadata.labels?.["app.kubernetes.io/component"] !== undefined,
  );
}

function processesOfDriver(): string[] {
  return processesOf(driverPods());
}

/** Pods with the restarts of their containers. */
function processesOf(pods: Pods): string[] {
  const named = pods.map(({ metadata, status }) => {
    const restarts = status?.containerStatuses?.map(({ restartCount }) => restartCount);
    return `${metadata?.name} ${metadata?.uid} ${restarts?.join(" ")}`;
  });
  return named.toSorted();
}

/**
 * The kubelet writes changed Secrets and ConfigMaps into the volumes of a pod with its next look at
 * the pod: after a minute, or right after any change of the pod itself.
 */
async function syncVolumesOf(pods: Pods): Promise<void> {
  for (const { metadata } of pods) {
    const target = ["pod", metadata?.name ?? "", "--namespace", metadata?.namespace ?? ""];
    await it.cluster.kubectl(["annotate", "--overwrite", ...target, `synced=${Date.now()}`]);
  }
}

interface StatsSummary {
  readonly pods: readonly {
    readonly podRef: { readonly namespace: string };
    readonly volume?: readonly { readonly name: string; readonly usedBytes?: number }[];
  }[];
}

/** Waits until the kubelet has seen that a cache uses so much; no event tells of it. */
async function untilCacheIsMeasured(leastBytes: number): Promise<number> {
  const signal = AbortSignal.timeout(MEASURED_WITHIN_MS);
  for (;;) {
    const text = await it.cluster.kubectl([
      "get",
      "--raw",
      "/api/v1/nodes/node1/proxy/stats/summary",
    ]);
    const { pods } = JSON.parse(text) as StatsSummary;
    const volumes = pods
      .filter(({ podRef }) => podRef.namespace === MOUNTPOINT_NAMESPACE)
      .flatMap(({ volume = [] }) => volume);
    const cache = volumes.find(({ name }) => name === "cache");
    if ((cache?.usedBytes ?? 0) >= leastBytes) return (cache?.usedBytes ?? 0) / MIB;
    await sleep(LOOK_AGAIN_MS, undefined, { signal });
  }
}
