import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import type { VolumeOptions } from "../../tools/stack/driver.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";
import {
  assertNothingLeft,
  makeBucket,
  objectOf,
  removePods,
  shell,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "kinds";
const OWN_BUCKET = "tenant-owned";

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

function secretOf(name: string, { accessKeyId, secretAccessKey }: S3Access): object {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: "default" },
    stringData: { access_key_id: accessKeyId, secret_access_key: secretAccessKey },
  };
}
