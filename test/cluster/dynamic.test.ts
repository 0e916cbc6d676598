import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
} from "@aws-sdk/client-s3";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { startCluster } from "../../tools/stack/cluster.ts";
import type { Cluster } from "../../tools/stack/cluster.ts";
import { installDriver, workloadPod } from "../../tools/stack/driver.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";

let cluster: Cluster;
before(async () => {
  cluster = await startCluster();
  await installDriver(cluster);
});
after(async () => {
  await cluster?.[Symbol.asyncDispose]();
});

test("the example of docs/dynamic-volumes.md works as written, up to the bytes in S3", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/dynamic-volumes.md"), "utf8");
  const [, example = ""] = /```yaml\n([^]*?)```/.exec(page) ?? [];
  const local = `image: ${BUSYBOX_IMAGE}\n      imagePullPolicy: Never`;
  assert.match(example, /image: busybox\S+/);
  await cluster.kubectl(["apply", "-f", "-"], example.replace(/image: busybox\S+/, local));
  await cluster.waitFor("pvc/diary", "--for=jsonpath={.status.phase}=Bound");
  await cluster.waitFor("pod/diarist", "--for=condition=Ready");
  const [bucket = "", ...others] = await buckets();
  assert.deepEqual(others, []);
  const attachments = await cluster.kubectl(["get", "s3pa", "-o", "jsonpath={..volumeID}"]);
  assert.equal(attachments, bucket, "the attachment names the volume as users know it");
  await remove("diarist");
  assert.equal(await object(bucket, "monday.txt"), "Dear diary,\n");
});

test("its bucket is kept with what is in it, an empty one goes with its claim", async () => {
  const [kept = ""] = await buckets();
  await cluster.apply(claim("empty", "s3"), workloadPod("visitor", "empty", BUSYBOX_IMAGE));
  await cluster.waitFor("pod/visitor", "--for=condition=Ready");
  assert.equal((await buckets()).length, 2);
  await remove("visitor");
  await cluster.kubectl(["delete", "pvc", "empty", "diary", "--wait"]);
  await cluster.kubectl(["wait", "pv", "--for=delete", "--all", "--timeout=60s"]);
  assert.deepEqual(await buckets(), [kept]);
  const reason = ["--field-selector=reason=BucketKept", "-o", "jsonpath={..message}"];
  const said = await cluster.kubectl(["get", "events", ...reason]);
  assert.match(said, new RegExp(`bucket ${kept} is kept: it is not empty`));
});

test("two claims in one bucket see only their own files, ReadWriteOnce and late bound", async () => {
  await clientOf(cluster.s3).send(new CreateBucketCommand({ Bucket: "shared" }));
  const parameters = { bucketName: "shared", prefix: "${pvc.namespace}", onDelete: "delete" };
  const late = { volumeBindingMode: "WaitForFirstConsumer", parameters };
  await cluster.apply(
    { ...STORAGE_CLASS, metadata: { name: "parts" }, mountOptions: ["allow-delete"], ...late },
    claim("left", "parts", "ReadWriteOnce"),
    claim("right", "parts", "ReadWriteOncePod"),
    workloadPod("left", "left", BUSYBOX_IMAGE),
    workloadPod("right", "right", BUSYBOX_IMAGE),
  );
  for (const side of ["left", "right"]) {
    await cluster.waitFor(`pod/${side}`, "--for=condition=Ready");
    await cluster.kubectl(["exec", side, "--", "sh", "-c", `echo ${side} > /data/${side}.txt`]);
    assert.equal(await cluster.kubectl(["exec", side, "--", "ls", "/data"]), `${side}.txt\n`);
  }
  const keys = await keysOf("shared");
  assert.match(
    keys.join(" "),
    /^default\/[0-9a-f-]{36}\/\w+\.txt default\/[0-9a-f-]{36}\/\w+\.txt$/,
  );
  await Promise.all(["left", "right"].map(remove));
  await cluster.kubectl(["delete", "pvc", "left", "right", "--wait"]);
  await cluster.kubectl(["wait", "pv", "--for=delete", "--all", "--timeout=60s"]);
  assert.deepEqual(await keysOf("shared"), []);
});

test("a class sizes the Mountpoint Pods of its volumes, and gives them a cache", async () => {
  const parameters = {
    mountpointContainerResourcesRequestsCpu: "20m",
    mountpointContainerResourcesLimitsMemory: "256Mi",
    cache: "emptyDir",
    cacheEmptyDirSizeLimit: "64Mi",
  };
  await cluster.apply(
    { ...STORAGE_CLASS, metadata: { name: "sized" }, parameters },
    claim("sized", "sized"),
    workloadPod("sized", "sized", BUSYBOX_IMAGE),
  );
  await cluster.waitFor("pod/sized", "--for=condition=Ready");
  await cluster.kubectl(["exec", "sized", "--", "sh", "-ec", "echo a > /data/a; cat /data/a"]);
  const volume = await cluster.kubectl(["get", "pvc", "sized", "-o", "jsonpath={..volumeName}"]);
  const pods = ["pods", "-n", "mount-s3", "-o", "json"];
  const { items } = JSON.parse(await cluster.kubectl(["get", ...pods])) as PodList;
  const label = "s3.csi.scality.com/volume-name";
  const spec = items.find(({ metadata }) => metadata.labels[label] === volume)?.spec;
  const requests = { cpu: "20m", "ephemeral-storage": "64Mi", memory: "256Mi" };
  assert.deepEqual(spec?.containers[0]?.resources, { limits: { memory: "256Mi" }, requests });
  assert.match(spec.containers[0].args.join(" "), /--cache-limit 60/);
  const cache = spec.volumes.find(({ name }) => name === "cache");
  assert.deepEqual(cache?.emptyDir, { sizeLimit: "64Mi" });
  await remove("sized");
});

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly labels: Readonly<Record<string, string>> };
    readonly spec: {
      readonly containers: readonly { readonly args: string[]; readonly resources: object }[];
      readonly volumes: readonly { readonly name: string; readonly emptyDir?: object }[];
    };
  }[];
}

const STORAGE_CLASS = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  provisioner: "s3.csi.scality.com",
};

function claim(name: string, storageClassName: string, mode = "ReadWriteMany"): object {
  const resources = { requests: { storage: "1Gi" } };
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default" },
    spec: { accessModes: [mode], storageClassName, resources },
  };
}

async function remove(pod: string): Promise<void> {
  await cluster.kubectl(["delete", "pod", pod, "--grace-period=1", "--wait"]);
}

async function buckets(): Promise<string[]> {
  const { Buckets = [] } = await clientOf(cluster.s3).send(new ListBucketsCommand({}));
  return Buckets.map(({ Name = "" }) => Name);
}

async function keysOf(bucket: string): Promise<string[]> {
  const list = new ListObjectsV2Command({ Bucket: bucket });
  const { Contents = [] } = await clientOf(cluster.s3).send(list);
  return Contents.map(({ Key = "" }) => Key);
}

async function object(bucket: string, key: string): Promise<string | undefined> {
  const command = new GetObjectCommand({ Bucket: bucket, Key: key });
  const answer = await clientOf(cluster.s3).send(command);
  return answer.Body?.transformToString();
}
