import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Failure } from "../../src/base/failure.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { JsonPatch } from "../../src/kube/kube-client.ts";
import { CSI_NODES, NODES } from "../../src/kube/resource.ts";
import type { KubeNode, KubeObject, Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { StartupTaint } from "../../src/node/startup-taint.ts";
import type { StartupTaintOptions } from "../../src/node/startup-taint.ts";
import { DRIVER_NAME, STARTUP_TAINT } from "../../src/volume/names.ts";
import { RELEASE_NAMESPACE, installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { log } from "../reconciler/objects.ts";

const TIMEOUT = { timeout: 60_000 };
const ACCOUNT = "s3-csi-driver-sa";
const BINDINGS: Resource<KubeObject & { roleRef: object; subjects: object[] }> = {
  prefix: "/apis/rbac.authorization.k8s.io/v1",
  plural: "clusterrolebindings",
};
const taint = (key: string, effect = "NoSchedule") => ({ key, effect });
const taints = (...all: object[]) => ({ spec: { taints: all } });

const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let nodes: WatchedList<KubeNode, KubeNode>;
let nodesFollowed: Promise<void>;

before(async () => {
  chart = await installChart();
  nodes = new WatchedList({
    client: chart.admin,
    log,
    resource: NODES,
    project: (node) => node,
  });
  nodesFollowed = nodes.start(signal);
}, TIMEOUT);
after(async () => {
  stop.abort();
  await nodesFollowed;
  await chart[Symbol.asyncDispose]();
});

/** A node and its CSINode as a kubelet registers them, the driver not listed yet. */
async function register(name: string, ...tainted: object[]): Promise<void> {
  const { uid } = (await chart.admin.create(NODES, { metadata: { name } }, signal)).metadata ?? {};
  // Taints afterwards: the API server adds one of its own to every new node.
  await chart.admin.patch(NODES, { name }, taints(...tainted), signal);
  const ownerReferences = [{ apiVersion: "v1", kind: "Node", name, uid: uid ?? "" }];
  const metadata = { name, ownerReferences };
  await chart.admin.create(CSI_NODES, { metadata, spec: { drivers: [] } }, signal);
}

async function list(name: string, ...drivers: string[]): Promise<void> {
  const entries = drivers.map((driver) => ({ name: driver, nodeID: name }));
  await chart.admin.patch(CSI_NODES, { name }, { spec: { drivers: entries } }, signal);
}

/** The node service's part for one node; ends with the test. */
function removing(nodeName: string, client: StartupTaintOptions["client"]): AsyncDisposable {
  const end = new AbortController();
  const options = { client, nodeName, driverName: DRIVER_NAME, log, backOffMs: 20 };
  const following = new StartupTaint(options).follow(end.signal);
  return {
    async [Symbol.asyncDispose]() {
      end.abort();
      await following;
    },
  };
}

const clientOn = (name: string) => new KubeClient(chart.accessOf(ACCOUNT, name));
/** Without the times that the API server's own taints carry. */
const taintsOf = (node: KubeNode | undefined) =>
  (node?.spec?.taints ?? []).map(({ key, effect }) => taint(key, effect));
const isStartup = ({ key }: { key: string }) => key === STARTUP_TAINT;

async function untilFree(name: string): Promise<object[]> {
  const free = await nodes.until((all) => {
    const node = all.get(name);
    return node === undefined || taintsOf(node).some(isStartup) ? undefined : node;
  }, signal);
  return taintsOf(free).filter(({ key }) => !key.startsWith("node.kubernetes.io/"));
}

test("it goes once the driver is listed, with every effect, and alone", TIMEOUT, async () => {
  const others = [taint("a"), taint("b", "NoExecute")];
  const ours = [taint(STARTUP_TAINT), taint(STARTUP_TAINT, "NoExecute")];
  await register("first", ...ours.toSpliced(1, 0, ...others));
  using client = clientOn("first");
  await using _removing = removing("first", client);
  await list("first", "other.example.com");
  const still = await chart.admin.get(NODES, { name: "first" }, signal);
  assert.equal(taintsOf(still).filter(isStartup).length, 2, "the driver is not there yet");
  await list("first", "other.example.com", DRIVER_NAME);
  assert.deepEqual(await untilFree("first"), others);
});

test("a node that is made anew is freed again, the last taint too", TIMEOUT, async () => {
  await register("reborn", taint(STARTUP_TAINT));
  using client = clientOn("reborn");
  await using _removing = removing("reborn", client);
  await list("reborn", DRIVER_NAME);
  assert.deepEqual(await untilFree("reborn"), []);
  await chart.admin.delete(CSI_NODES, { name: "reborn" }, {}, signal);
  await chart.admin.delete(NODES, { name: "reborn" }, {}, signal);
  await nodes.until((all) => (all.get("reborn") === undefined ? true : undefined), signal);
  await register("reborn", taint(STARTUP_TAINT));
  await list("reborn", DRIVER_NAME);
  assert.deepEqual(await untilFree("reborn"), []);
});

test("taints that others change meanwhile are neither lost nor brought back", TIMEOUT, async () => {
  await register("busy", taint(STARTUP_TAINT), taint("goes"));
  using client = clientOn("busy");
  let reads = 0;
  const raced: StartupTaintOptions["client"] = {
    list: client.list.bind(client),
    watch: client.watch.bind(client),
    patch: client.patch.bind(client),
    async get(resource, place, within) {
      const seen = await client.get(resource, place, within);
      const changed = taints(taint(STARTUP_TAINT), taint("comes"));
      if (++reads === 1) await chart.admin.patch(NODES, place, changed, signal);
      return seen;
    },
  };
  await using _removing = removing("busy", raced);
  await list("busy", DRIVER_NAME);
  assert.deepEqual(await untilFree("busy"), [taint("comes")]);
  assert.equal(reads, 2, "one conflict, one success");
});

test("an API server that refuses is asked until it does not", TIMEOUT, async () => {
  await register("refused", taint(STARTUP_TAINT));
  await list("refused", DRIVER_NAME);
  const account = "comes-late";
  using client = new KubeClient(chart.accessOf(account, "refused"));
  const denied = Promise.withResolvers<void>();
  const told: StartupTaintOptions["client"] = {
    list: chart.admin.list.bind(chart.admin),
    watch: chart.admin.watch.bind(chart.admin),
    patch: client.patch.bind(client),
    async get(resource, place, within) {
      try {
        return await client.get(resource, place, within);
      } catch (error) {
        if (error instanceof Failure && error.kind === "denied") denied.resolve();
        throw error;
      }
    },
  };
  await using _removing = removing("refused", told);
  await denied.promise;
  const apiGroup = "rbac.authorization.k8s.io";
  const binding = {
    metadata: { name: account },
    roleRef: { apiGroup, kind: "ClusterRole", name: "s3csi-node" },
    subjects: [{ kind: "ServiceAccount", name: account, namespace: RELEASE_NAMESPACE }],
  };
  await chart.admin.create(BINDINGS, binding, signal);
  assert.deepEqual(await untilFree("refused"), []);
});

test("the node service may change nothing else of a Node, and no other Node", TIMEOUT, async () => {
  await register("own", taint(STARTUP_TAINT), taint("a"));
  await register("foreign", taint(STARTUP_TAINT));
  using client = clientOn("own");
  const patch = (name: string, body: object | JsonPatch) =>
    client.patch(NODES, { name }, body, signal);
  await untilDenied(() => patch("foreign", { metadata: { labels: { "example.com/x": "y" } } }));
  await assert.rejects(patch("foreign", taints()), /on own may not change Node foreign/);
  await assert.rejects(patch("own", taints()), /its startup taint and no other/);
  const more = taints(taint("a"), taint("b"));
  await assert.rejects(patch("own", more), /its startup taint and no other/);
  const label = { metadata: { labels: { "example.com/x": "y" } } };
  await assert.rejects(patch("own", label), /nothing of a Node but its taints/);
  await assert.rejects(patch("own", { spec: { unschedulable: true } }), /but its taints/);
  await patch("own", taints(taint("a")));
});

/** The API server takes up a new policy in its own time and tells nobody: ask until it has. */
async function untilDenied(change: () => Promise<unknown>): Promise<void> {
  const limit = AbortSignal.timeout(TIMEOUT.timeout);
  for (;;) {
    limit.throwIfAborted();
    try {
      await change();
    } catch (error) {
      assert.match(String(error), /ValidatingAdmissionPolicy/);
      return;
    }
  }
}
