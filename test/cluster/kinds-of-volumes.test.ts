import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { IMAGE } from "../../tools/image.ts";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { DRIVER_NAMESPACE, staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import type { VolumeOptions } from "../../tools/stack/driver.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";
import {
  assertNothingLeft,
  makeBucket,
  objectOf,
  removeBucket,
  removePods,
  shell,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "kinds";
const OWN_BUCKET = "tenant-owned";

interface WorkloadPod {
  readonly spec: { readonly containers: [object] };
}

let it: TestCluster;
let tenant: S3Access;
before(async () => {
  it = await startTestCluster();
  const { s3 } = it.cluster;
  tenant = await s3.addAccount("tenant");
  await makeBucket(s3, BUCKET);
  await makeBucket(tenant, OWN_BUCKET);
  await it.cluster.apply(secretOf("tenant-keys", tenant));
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

test("with the driver's keys a pod writes, and the S3 API reads the same bytes", async () => {
  await startOn("driver-keys", BUCKET);
  await shell(it, "driver-keys", "echo driver > /data/driver.txt; cat /data/driver.txt");
  assert.equal(await objectOf(it.cluster.s3, BUCKET, "driver.txt"), "driver\n");
  await removePods(it, "driver-keys");
});

test("with a volume's own keys it is the tenant who writes, and nobody else's bucket", async () => {
  await startOn("own-keys", OWN_BUCKET, { secret: "tenant-keys" });
  await shell(it, "own-keys", "echo tenant > /data/tenant.txt");
  assert.equal(await objectOf(tenant, OWN_BUCKET, "tenant.txt"), "tenant\n");
  const volume = staticVolume("greedy", BUCKET, { secret: "tenant-keys" });
  await it.cluster.apply(...volume, workloadPod("greedy", "greedy", BUSYBOX_IMAGE));
  await it.watch.untilTold("greedy", /kinds.*(denied|AccessDenied)|denied.*kinds/i);
  await removePods(it, "own-keys", "greedy");
});

test("keys that are changed in the Secret change those of the running mount", async () => {
  const { cluster } = it;
  await startOn("rotated", OWN_BUCKET, { secret: "tenant-keys" });
  const inPod = (script: string) => shell(it, "rotated", `timeout 60 sh -ec '${script}'`);
  /** The kubelet looks after a pod that changes at once; after others within a minute and a half. */
  const change = async (keys: S3Access, round: string) => {
    await cluster.apply(secretOf("tenant-keys", keys));
    await cluster.kubectl(["annotate", "--overwrite", "pod", "rotated", `test/round=${round}`]);
  };
  await inPod("cat /data/tenant.txt");
  await change({ ...tenant, secretAccessKey: "not-the-key" }, "wrong");
  await inPod("while cat /data/tenant.txt; do sleep 0.1; done 2> /tmp/why; grep denied /tmp/why");
  await change(tenant, "right");
  await inPod("until cat /data/tenant.txt; do sleep 0.1; done; echo rotated > /data/rotated.txt");
  assert.equal(await objectOf(tenant, OWN_BUCKET, "rotated.txt"), "rotated\n");
  const field = ["csidriver", "s3.csi.scality.com", "-o", "jsonpath={.spec.requiresRepublish}"];
  assert.equal(await cluster.kubectl(["get", ...field]), "true");
  await removePods(it, "rotated");
});

test("the driver's Secret is changed: a running mount has the new credentials without a restart", async () => {
  const { cluster } = it;
  await startOn("driver-rotated", BUCKET);
  const inPod = (script: string) => shell(it, "driver-rotated", `timeout 90 sh -ec '${script}'`);
  const node = ["-n", DRIVER_NAMESPACE, "-l", "app=s3-csi-node"];
  const uid = () =>
    cluster.kubectl(["get", "pod", ...node, "-o", "jsonpath={.items[*].metadata.uid}"]);
  const earlier = await uid();
  /** The kubelet updates the volumes of a pod that changes at once. */
  const change = async (keys: S3Access, round: string) => {
    await cluster.apply(secretOf("s3-secret", keys, DRIVER_NAMESPACE));
    await cluster.kubectl(["annotate", "--overwrite", "pod", ...node, `test/round=${round}`]);
  };
  await inPod("echo one > /data/one.txt; cat /data/one.txt");
  await change({ ...cluster.s3, secretAccessKey: "not-the-key" }, "wrong");
  await inPod("while cat /data/one.txt; do sleep 0.1; done 2> /tmp/why; grep denied /tmp/why");
  await change(cluster.s3, "right");
  await inPod("until cat /data/one.txt; do sleep 0.1; done; echo two > /data/two.txt");
  assert.equal(await objectOf(cluster.s3, BUCKET, "two.txt"), "two\n");
  assert.equal(await uid(), earlier, "no pod of the node service was replaced");
  await removePods(it, "driver-rotated");
});

test("a read-only volume is read, and not written", async () => {
  await startOn("read-only", BUCKET, { readOnly: true });
  assert.equal(await shell(it, "read-only", "cat /data/driver.txt"), "driver\n");
  await assert.rejects(shell(it, "read-only", "echo x > /data/x"), /Read-only file system/);
  await removePods(it, "read-only");
});

test("of two pods on a volume, the one that wants it read-only does not write", async () => {
  await startOn("writable", BUCKET);
  await it.cluster.apply(workloadPod("reader", "writable", BUSYBOX_IMAGE, {}, true));
  await it.watch.untilReady("reader");
  await shell(it, "writable", "echo both > /data/both.txt");
  assert.equal(await shell(it, "reader", "cat /data/both.txt"), "both\n");
  await assert.rejects(shell(it, "reader", "echo x > /data/x"), /Read-only file system/);
  await removePods(it, "writable", "reader");
});

test("the option read-only alone keeps a pod from writing", async () => {
  await startOn("option", BUCKET, { mountOptions: ["read-only"] });
  assert.equal(await shell(it, "option", "cat /data/driver.txt"), "driver\n");
  await assert.rejects(shell(it, "option", "echo x > /data/x"), /Read-only file system/);
  await removePods(it, "option");
});

test("a prefix with a comma in it is mounted", async () => {
  await startOn("comma", BUCKET, { mountOptions: ["prefix=2024,q1/"] });
  await shell(it, "comma", "echo first > /data/quarter.txt");
  assert.equal(await objectOf(it.cluster.s3, BUCKET, "2024,q1/quarter.txt"), "first\n");
  await removePods(it, "comma");
});

test("a volume's own proxy is left out, and an event says what would allow it", async () => {
  const attributes = { "mountpointEnv.HTTP_PROXY": "http://127.0.0.1:9" };
  await startOn("proxied", BUCKET, { attributes });
  await it.watch.untilTold("proxied", /mountpointEnv\.HTTP_PROXY is left out: .*allowVolumeEndp/);
  await shell(it, "proxied", "cat /data/driver.txt");
  await removePods(it, "proxied");
});

test("a pod that is not root writes through its fsGroup", async () => {
  const context = { runAsUser: 2000, runAsGroup: 3000, fsGroup: 4000, runAsNonRoot: true };
  await startOn("group", BUCKET, { mountOptions: ["allow-other"] }, context);
  const listed = await shell(it, "group", "id -G; stat -c '%g %a' /data /data/driver.txt");
  assert.equal(listed, "3000 4000\n4000 770\n4000 660\n");
  await shell(it, "group", "echo group > /data/group.txt");
  assert.equal(await objectOf(it.cluster.s3, BUCKET, "group.txt"), "group\n");
  await removePods(it, "group");
});

test("a pod that is not root and in no group of the volume can't write", async () => {
  const context = { runAsUser: 2000, runAsGroup: 3000, runAsNonRoot: true };
  await startOn("stranger", BUCKET, { mountOptions: ["allow-other"] }, context);
  assert.equal(await shell(it, "stranger", "cat /data/driver.txt"), "driver\n");
  await assert.rejects(shell(it, "stranger", "echo x > /data/x"), /Permission denied/);
  await removePods(it, "stranger");
});

/**
 * Opens a file in the main thread, writes it in a second one and closes it in a third one: when
 * the other file, if one is named, has gone.
 */
const THREADS = `
  const { existsSync, openSync } = require("node:fs");
  const { Worker } = require("node:worker_threads");
  const inThread = (work) => new Promise((resolve, reject) => {
    new Worker(work, { eval: true }).on("error", reject).on("exit", resolve);
  });
  const [, path, other] = process.argv;
  const fd = openSync(path, "w");
  const gone = async () => {
    while (other && existsSync(other)) await new Promise((resolve) => setTimeout(resolve, 50));
  };
  inThread(\`require("node:fs").writeSync(\${fd}, "by a second thread")\`)
    .then(gone)
    .then(() => inThread(\`require("node:fs").closeSync(\${fd})\`))
    .then(() => console.log("closed"), (error) => console.log(error.code));
`;

/** A child that inherits the file ends while its parent goes on, with a part written and without. */
const PARENT = `
  const { closeSync, openSync, statSync, writeSync } = require("node:fs");
  const { spawnSync } = require("node:child_process");
  const [, path] = process.argv;
  const fd = openSync(path, "w");
  const write = (bytes) => { for (let left = bytes; left > 0;) left -= writeSync(fd, Buffer.alloc(left, 7)); };
  const child = () => spawnSync("/usr/bin/node", ["-e", ""], { stdio: ["ignore", fd, "ignore"] });
  write(1000);
  child();
  write(9 << 20);
  child();
  write(4 << 20);
  closeSync(fd);
  console.log(statSync(path).size);
`;

test("close by another thread than the opener's reports a failed upload", async () => {
  const { cluster, watch } = it;
  await makeBucket(cluster.s3, "short-lived");
  const pod = workloadPod("threads", "threads", IMAGE, { runAsUser: 0 }) as WorkloadPod;
  const [container] = pod.spec.containers;
  Object.assign(container, { command: ["/usr/bin/node", "-e", "setInterval(() => {}, 1e6)"] });
  await cluster.apply(...staticVolume("threads", "short-lived", {}), pod);
  await watch.untilReady("threads");
  const inPod = (script: string, ...args: string[]) =>
    cluster.kubectl(["exec", "threads", "--", "/usr/bin/node", "-e", script, ...args]);
  assert.equal(await inPod(THREADS, "/data/well"), "closed\n");
  assert.equal(await objectOf(cluster.s3, "short-lived", "well"), "by a second thread");
  assert.equal(await inPod(PARENT, "/data/inherited"), `${1000 + (13 << 20)}\n`);
  const losing = inPod(THREADS, "/data/lost", "/data/well");
  await inPod('while (!require("node:fs").existsSync("/data/lost"));');
  await removeBucket(cluster.s3, "short-lived", "well", "inherited");
  assert.equal(await losing, "ENOENT\n", "the bucket has gone meanwhile");
  await removePods(it, "threads");
});

test("afterwards nothing is left", async () => {
  await assertNothingLeft(it);
});

async function startOn(
  name: string,
  bucket: string,
  options: VolumeOptions = {},
  securityContext: object = {},
): Promise<void> {
  const pod = workloadPod(name, name, BUSYBOX_IMAGE, securityContext);
  await it.cluster.apply(...staticVolume(name, bucket, options), pod);
  await it.watch.untilReady(name);
}

function secretOf(
  name: string,
  { accessKeyId, secretAccessKey }: S3Access,
  namespace = "default",
): object {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace },
    stringData: { access_key_id: accessKeyId, secret_access_key: secretAccessKey },
  };
}
