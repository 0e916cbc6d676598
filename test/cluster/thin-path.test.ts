import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import { STARTUP_TAINT } from "../../src/volume/names.ts";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { startCluster } from "../../tools/stack/cluster.ts";
import type { Cluster } from "../../tools/stack/cluster.ts";
import {
  driverLog,
  installDriver,
  staticVolume,
  volumeMountsOf,
  workloadPod,
} from "../../tools/stack/driver.ts";
import { timelineOf } from "../../tools/stack/timeline.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";

const BUCKET = "thin-path";
const MOUNTS_DIR = "/var/lib/kubelet/plugins/s3.csi.scality.com/mnt";
/** What one publish may take beside what the kubelet needs to start the Mountpoint Pod. */
const OWN_LIMIT_MS = 1500;

let cluster: Cluster;
before(async () => {
  cluster = await startCluster();
  await cluster.kubectl(["taint", "node", "--all", `${STARTUP_TAINT}=:NoSchedule`]);
  await installDriver(cluster); // its controller does not tolerate the taint, its node service does
  const s3 = clientOf(cluster.s3);
  await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: "dir/hello.txt", Body: "hello\n" }));
  const writable = staticVolume("rw", BUCKET, { mountOptions: ["allow-delete"] });
  await cluster.apply(...writable, ...staticVolume("ro", BUCKET, { readOnly: true }));
});
after(async () => {
  await cluster?.[Symbol.asyncDispose]();
});

test("the node is free of the startup taint once the driver serves it", async () => {
  const taints = await cluster.kubectl(["get", "nodes", "-o", "jsonpath={.items[*].spec.taints}"]);
  assert(!taints.includes(STARTUP_TAINT), taints);
});

test("a workload lists, reads, writes and deletes; the S3 API sees the same", async () => {
  const createdAtMs = Date.now();
  await cluster.apply(workloadPod("one", "rw", BUSYBOX_IMAGE));
  await cluster.waitFor("pod/one", "--for=condition=Ready");
  assert.equal(await shell("one", "ls /data /data/dir"), "/data:\ndir\n\n/data/dir:\nhello.txt\n");
  assert.equal(await shell("one", "cat /data/dir/hello.txt"), "hello\n");
  await shell("one", "echo written > /data/dir/new.txt");
  assert.equal(await object("dir/new.txt"), "written\n");
  const sum = "dd if=/dev/urandom of=/tmp/b bs=1M count=20 2>/dev/null; cp /tmp/b /data/big; ";
  const sums = await shell("one", `${sum} sha256sum < /tmp/b; sha256sum < /data/big`);
  const [before_, after_] = sums.trim().split("\n");
  assert.equal(after_, before_, "20 MiB, hence several parts, come back as they went");
  await shell("one", "rm /data/big");
  await assert.rejects(object("big"), { name: "NoSuchKey" });

  const { scheduled, attached, mounterRuns, engineReady, bound } = await timelineOf(
    cluster,
    "one",
    createdAtMs,
  );
  assert(scheduled <= attached && attached <= mounterRuns, "parts come in their order");
  assert(mounterRuns <= engineReady && engineReady <= bound, "parts come in their order");
  const ownMs = attached - scheduled + bound - mounterRuns;
  assert(ownMs < OWN_LIMIT_MS, `${ownMs} ms beside the start of the pod`);
});

test("a second workload of the same volume shares the Mountpoint Pod", async () => {
  await cluster.apply(workloadPod("two", "rw", BUSYBOX_IMAGE));
  await cluster.waitFor("pod/two", "--for=condition=Ready");
  assert.equal(await shell("two", "cat /data/dir/new.txt"), "written\n");
  assert.equal((await mountpointPods()).length, 1);
  const [attachment, ...others] = await attachments();
  assert.deepEqual(others, []);
  const served = Object.values(attachment?.spec.mountpointS3PodAttachments ?? {});
  const uids = served.flat().map((workload) => workload.workloadPodUID);
  assert.deepEqual(uids.toSorted(), (await Promise.all(["one", "two"].map(uidOf))).toSorted());
});

test("read-only holds in the pod and on the host's own copy of the mount", async () => {
  await cluster.apply(workloadPod("reader", "ro", BUSYBOX_IMAGE));
  await cluster.waitFor("pod/reader", "--for=condition=Ready");
  assert.equal(await shell("reader", "cat /data/dir/hello.txt"), "hello\n");
  await assert.rejects(shell("reader", "echo x > /data/x"), /Read-only file system/);
  const uid = await uidOf("reader");
  const binds = volumeMountsOf(cluster).filter((entry) => entry.mountPoint.includes(uid));
  assert.deepEqual(
    binds.map((entry) => entry.readOnly),
    [true],
  );
  await remove("reader");
});

test("no key is in a pod, an attachment, an event or a log", async () => {
  const kinds = "pods,s3pa,events,configmaps,deployments,daemonsets";
  const texts = [await cluster.kubectl(["get", kinds, "-A", "-o", "json"])];
  for (const pod of await mountpointPods()) {
    texts.push(await cluster.kubectl(["logs", "-n", "mount-s3", pod]));
  }
  for (const part of ["controller", "node"] as const) texts.push(await driverLog(cluster, part));
  for (const text of texts) {
    assert(!text.includes(cluster.s3.secretAccessKey), "the secret key was found");
    assert(!text.includes(cluster.s3.accessKeyId), "the key's id was found");
  }
});

test("the example of docs/static-volumes.md works as written", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/static-volumes.md"), "utf8");
  const [, example = ""] = /```yaml\n([^]*?)```/.exec(page) ?? [];
  const local = `image: ${BUSYBOX_IMAGE}\n      imagePullPolicy: Never`;
  assert.match(example, /image: busybox\S+/);
  await clientOf(cluster.s3).send(new CreateBucketCommand({ Bucket: "letters" }));
  await cluster.kubectl(["apply", "-f", "-"], example.replace(/image: busybox\S+/, local));
  await cluster.waitFor("pod/writer", "--for=condition=Ready");
  await cluster.kubectl(["delete", "pod", "writer", "--grace-period=1", "--wait"]);
  assert.equal(await object("first.txt", "letters"), "Dear reader,\n");
});

test("a bad bucket is told in the workload's events, in words", async () => {
  await cluster.apply(
    ...staticVolume("wrong", "no-such-bucket"),
    workloadPod("w", "wrong", BUSYBOX_IMAGE),
  );
  const about = "--field-selector=involvedObject.name=w,reason=FailedMount";
  const message = "custom-columns=MESSAGE:.message";
  const watch = ["get", "events", "--watch", about, "-o", message, "--no-headers"];
  await cluster.firstLine(watch, /no-such-bucket/);
  await remove("w");
});

test("the last workload goes, and nothing is left, though a pod holds / by hostPath", async () => {
  await cluster.apply(holderOfRoot());
  await cluster.waitFor("pod/holder", "--for=condition=Ready");
  assert.notDeepEqual(volumeMountsOf(cluster), [], "there is something to take down");
  await remove("one");
  assert.equal(await shell("two", "cat /data/dir/new.txt"), "written\n", "the other goes on");
  await remove("two");
  const gone = ["--for=delete", "--all", "--timeout=30s"];
  await cluster.kubectl(["wait", "s3pa", ...gone]);
  await cluster.kubectl(["wait", "pod", "-n", "mount-s3", ...gone]);
  const log = await driverLog(cluster, "controller");
  assert.match(log, /"why":"finished".*Mountpoint Pod deleted/, "it ended Succeeded");
  assert.deepEqual(volumeMountsOf(cluster), []);
  assert.deepEqual(readdirSync(`/proc/${cluster.machine.pid}/root${MOUNTS_DIR}`), []);
});

async function remove(pod: string): Promise<void> {
  await cluster.kubectl(["delete", "pod", pod, "--wait"]);
}

function shell(pod: string, script: string): Promise<string> {
  return cluster.kubectl(["exec", pod, "--", "sh", "-ec", script]);
}

function uidOf(pod: string): Promise<string> {
  return cluster.kubectl(["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"]);
}

async function object(key: string, bucket = BUCKET): Promise<string | undefined> {
  const answer = await clientOf(cluster.s3).send(
    new GetObjectCommand({ Bucket: bucket, Key: key }),
  );
  return answer.Body?.transformToString();
}

async function mountpointPods(): Promise<string[]> {
  const names = await cluster.kubectl(["get", "pods", "-n", "mount-s3", "-o", "name"]);
  return names.split("\n").filter((name) => name !== "");
}

interface Attachment {
  readonly spec: {
    readonly mountpointS3PodAttachments: Record<string, { readonly workloadPodUID: string }[]>;
  };
}

async function attachments(): Promise<Attachment[]> {
  const list = JSON.parse(await cluster.kubectl(["get", "s3pa", "-o", "json"]));
  return (list as { items: Attachment[] }).items;
}

/** Monitoring agents do this: they see every mount of the node, and keep it from ending. */
function holderOfRoot(): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "holder" },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: "shell",
          image: BUSYBOX_IMAGE,
          imagePullPolicy: "Never",
          volumeMounts: [{ name: "root", mountPath: "/host" }],
        },
      ],
      volumes: [{ name: "root", hostPath: { path: "/" } }],
    },
  };
}
