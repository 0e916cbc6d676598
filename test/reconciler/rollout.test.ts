import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { leadWhenElected } from "../../src/kube/leader.ts";
import { LEASES, PODS } from "../../src/kube/resource.ts";
import type { Pod } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { installChart, RELEASE_NAMESPACE as NAMESPACE } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { log } from "./objects.ts";

const TIMEOUT = { timeout: 60_000 };
const DEPLOYMENT = "s3csi-controller";
/** OpenShift enables it: who changes the owners of an object must be allowed to delete it. */
const PLUGIN = "OwnerReferencesPermissionEnforcement";
const RIGHTS = ["--verb=get,list,watch,create,update", "--resource=leases,pods"];

const owned = new AsyncDisposableStack();
const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let pods: WatchedList<Pod, Pod>;

before(async () => {
  chart = owned.use(await installChart([PLUGIN]));
  owned.defer(() => stop.abort());
  const selection = { namespace: NAMESPACE, labelSelector: "app.kubernetes.io/instance=s3csi" };
  const follow = { client: chart.admin, log, selection, resource: PODS };
  pods = new WatchedList({ ...follow, project: (pod) => pod });
  pods.start(signal).catch((error: unknown) => log.error(error));
}, TIMEOUT);
after(() => owned.disposeAsync());

interface Replica {
  readonly pod: string;
  readonly replicaSet: string;
}

/** A controller pod of the chart's Deployment, once there is one of another ReplicaSet. */
function replicaBesides(others: readonly Replica[]): Promise<Replica> {
  const known = new Set(others.map(({ replicaSet }) => replicaSet));
  return pods.until((list) => {
    for (const { metadata } of list.values()) {
      const owner = metadata?.ownerReferences?.[0];
      if (owner?.kind !== "ReplicaSet" || !owner.name.startsWith(DEPLOYMENT)) continue;
      if (!known.has(owner.name)) return { pod: metadata?.name ?? "", replicaSet: owner.name };
    }
    return undefined;
  }, signal);
}

/** Leads by this Lease as that pod, with a service account's rights, and ends. */
async function leadOnce(account: string, lease: string, { pod }: Replica): Promise<void> {
  using client = new KubeClient(chart.accessOf(account));
  const end = new AbortController();
  const options = { client, namespace: NAMESPACE, name: lease, identity: pod, log };
  await leadWhenElected(options, async () => end.abort(), AbortSignal.any([signal, end.signal]));
  signal.throwIfAborted();
}

async function ownerOf(lease: string): Promise<string | undefined> {
  const place = { namespace: NAMESPACE, name: lease };
  const { metadata } = await chart.admin.get(LEASES, place, signal);
  return metadata?.ownerReferences?.[0]?.name;
}

test("a controller leads after a rollout where owners are protected", TIMEOUT, async () => {
  const account = "s3-csi-driver-controller-sa";
  const first = await replicaBesides([]);
  await leadOnce(account, DEPLOYMENT, first);
  assert.equal(await ownerOf(DEPLOYMENT), first.replicaSet);
  await chart.kubectl("rollout", "restart", `deployment/${DEPLOYMENT}`, "--namespace", NAMESPACE);
  const second = await replicaBesides([first]);
  await leadOnce(account, DEPLOYMENT, second);
  assert.equal(await ownerOf(DEPLOYMENT), second.replicaSet, "the Lease goes with the new one");

  // Without the right to delete Leases the new leader can't have the Lease, but it leads.
  const role = ["leader", "--namespace", NAMESPACE];
  await chart.kubectl("create", "role", ...role, ...RIGHTS);
  const subject = `--serviceaccount=${NAMESPACE}:weak`;
  await chart.kubectl("create", "rolebinding", ...role, "--role=leader", subject);
  await leadOnce("weak", "another", first);
  await leadOnce("weak", "another", second);
  assert.equal(await ownerOf("another"), first.replicaSet);
});
