import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
} from "@aws-sdk/client-s3";
import { run } from "../../tools/run.ts";
import { startCluster } from "../../tools/stack/cluster.ts";
import type { Cluster } from "../../tools/stack/cluster.ts";
import type { NodeSetup } from "../../tools/stack/cluster-config.ts";
import { ClusterWatch } from "../../tools/stack/cluster-watch.ts";
import { installDriver, volumeMountsOf } from "../../tools/stack/driver.ts";
import type { DriverSetup } from "../../tools/stack/driver.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";

const PLUGIN_DIR = "/var/lib/kubelet/plugins/s3.csi.scality.com";

/** A cluster with the driver, and somebody who follows what the API server tells. */
export interface TestCluster extends AsyncDisposable {
  readonly cluster: Cluster;
  readonly watch: ClusterWatch;
}

/** `driver`: how the chart is installed, which may take things on the cluster's network. */
export async function startTestCluster(
  setup?: NodeSetup,
  driver: (cluster: Cluster) => DriverSetup | Promise<DriverSetup> = () => ({}),
): Promise<TestCluster> {
  await using owned = new AsyncDisposableStack();
  const cluster = owned.use(await startCluster(setup));
  await installDriver(cluster, await driver(cluster));
  const watch = owned.use(await ClusterWatch.start(cluster));
  const all = owned.move();
  return { cluster, watch, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

export function shell({ cluster }: TestCluster, pod: string, script: string): Promise<string> {
  return cluster.kubectl(["exec", pod, "--", "sh", "-ec", script]);
}

export async function makeBucket(access: S3Access, bucket: string): Promise<void> {
  await clientOf(access).send(new CreateBucketCommand({ Bucket: bucket }));
}

/** The bucket and its only object. */
export async function removeBucket(
  access: S3Access,
  bucket: string,
  ...keys: readonly string[]
): Promise<void> {
  const client = clientOf(access);
  for (const Key of keys) await client.send(new DeleteObjectCommand({ Bucket: bucket, Key }));
  await client.send(new DeleteBucketCommand({ Bucket: bucket }));
}

export async function objectOf(access: S3Access, bucket: string, key: string): Promise<string> {
  const answer = await clientOf(access).send(new GetObjectCommand({ Bucket: bucket, Key: key }));
  return (await answer.Body?.transformToString()) ?? "";
}

export async function removePods({ watch }: TestCluster, ...names: string[]): Promise<void> {
  await Promise.all(names.map((name) => watch.deletePod(name)));
  await Promise.all(names.map((name) => watch.untilGone(name)));
}

/** No Mountpoint Pod, no attachment, no mount, no file: as before the first workload came. */
export async function assertNothingLeft({ cluster, watch }: TestCluster): Promise<void> {
  await watch.untilAllLetGo();
  assert.deepEqual(volumeMountsOf(cluster), []);
  const root = `/proc/${cluster.machine.pid}/root${PLUGIN_DIR}`;
  const files = readdirSync(root, { recursive: true, encoding: "utf8" });
  assert.deepEqual(files.toSorted(), ["csi.sock", "mnt"]);
}

/**
 * From now on no answer of the S3 server reaches anybody, as behind a firewall that drops packets;
 * dispose to mend it.
 */
export async function silenceS3({ cluster }: TestCluster): Promise<AsyncDisposable> {
  const { machine, s3 } = cluster;
  const rule = ["pref", "10", "ipproto", "tcp", "sport", new URL(s3.endpoint).port, "blackhole"];
  const change = (verb: string) => run("env", [...machine.enter, "ip", "rule", verb, ...rule]);
  await change("add");
  return { [Symbol.asyncDispose]: async () => void (await change("del")) };
}
