import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { LEASES, PODS } from "../../src/kube/resource.ts";
import type { KubeObject, Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { RoleProcess } from "../health/role-process.ts";
import { RELEASE_NAMESPACE as NAMESPACE, installChart } from "../reconciler/control-plane.ts";
import { Bench, MOUNTPOINTS } from "../reconciler/objects.ts";
import { Users, environmentOf, log } from "./objects.ts";

const TIMEOUT = { timeout: 120_000 };
const isController = (name = "") => name.startsWith("s3csi-controller-");
const LEASE = `${NAMESPACE}/s3csi-controller`;
const PAGE = join(import.meta.dirname, "../../docs/install.md");

/** Runs the commands of the page that wait until the driver has finished with everything. */
async function waitAsOnPage(kubeconfig: string): Promise<void> {
  const [, removal = ""] = readFileSync(PAGE, "utf8").split("## Remove\n");
  const [, commands] = /```bash\n([^]*?)```/.exec(removal) ?? [];
  assert(commands !== undefined, "the page has no commands below Remove");
  const path = [await programs("kubernetes"), process.env["PATH"]].join(delimiter);
  const env = { ...process.env, KUBECONFIG: kubeconfig, PATH: path };
  await run("sh", ["-ec", commands], { env });
}

test("an uninstall leaves nothing of the driver in the API", TIMEOUT, async (t) => {
  await using owned = new AsyncDisposableStack();
  const chart = owned.use(await installChart());
  const s3 = owned.use(await startS3Server());
  const stop = new AbortController();
  owned.defer(() => stop.abort());
  const signal = AbortSignal.any([stop.signal, t.signal]);
  const users = new Users(chart.admin, s3, signal);
  const bench = new Bench(chart.admin, signal);
  await Promise.all([users.start(), bench.start()]);
  const follow = <T extends KubeObject>(resource: Resource<T>, namespace: string) => {
    const of = { client: chart.admin, log, resource, selection: { namespace } };
    const list = new WatchedList<T, T>({ ...of, project: (object) => object });
    list.start(signal).catch((error: unknown) => log.error(error));
    return list;
  };
  const [pods, leases] = [follow(PODS, NAMESPACE), follow(LEASES, NAMESPACE)];

  // The controller of the chart's own pod, in a process: no kubelet runs the pod.
  const pod = await pods.until(
    (list) => list.values().find(({ metadata }) => isController(metadata?.name)),
    signal,
  );
  const env = { ...environmentOf(s3), POD_NAMESPACE: NAMESPACE, POD_NAME: pod.metadata?.name };
  const flags = ["controller", `--kubeconfig=${chart.kubeconfig}`];
  const controller = owned.use(new RoleProcess(flags, { env }));
  await leases.until((list) => list.get(LEASE), signal);

  await users.storageClass("plain");
  await users.claim("data", "plain");
  const { metadata: volume } = await users.bound("data");
  await bench.volume("pv-1");
  const { pod: mountpoint } = await bench.served(await bench.workload("w-1", "pv-1"));
  await bench.runMountpointPod(mountpoint);
  await bench.removeWorkload("w-1");
  await users.deleteClaim("data");
  let hasWaited = false;
  const waiting = waitAsOnPage(chart.kubeconfig).then(() => void (hasWaited = true));
  await bench.marked(mountpoint);
  assert(!hasWaited, "a Mountpoint Pod and its attachment are left");
  await bench.endMountpointPod(mountpoint, "Succeeded");
  await waiting;
  await users.volumeGone(volume?.name ?? "");
  await controller.end("SIGKILL"); // at once: it gives nothing back
  await waitAsOnPage(chart.kubeconfig); // succeeds where nothing is left

  await chart.helm("uninstall", "s3csi");
  await leases.until((list) => list.get(LEASE) === undefined || undefined, signal);
  const isOurs = ({ metadata }: typeof pod) =>
    metadata?.labels?.["app.kubernetes.io/instance"] === "s3csi";
  await pods.until((list) => !list.values().some(isOurs) || undefined, signal);
  const { admin } = chart;
  assert.deepEqual((await admin.list(ATTACHMENTS, {}, signal)).items, []);
  assert.deepEqual((await admin.list(PODS, { namespace: MOUNTPOINTS }, signal)).items, []);
  const kept = [...users.claims.values(), ...users.volumes.values()];
  const finalizers = kept.flatMap(({ metadata }) => metadata?.finalizers ?? []);
  assert.deepEqual(
    finalizers.filter((name) => !name.startsWith("kubernetes.io/")),
    [],
    "the user's own PV and claim keep Kubernetes' finalizers alone",
  );
  assert(kept.length > 0, "a static volume outlives the driver");
});
