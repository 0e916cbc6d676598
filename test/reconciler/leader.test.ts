import assert from "node:assert/strict";
import { test } from "node:test";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { leadWhenElected } from "../../src/kube/leader.ts";
import { LEASES, PODS } from "../../src/kube/resource.ts";
import type { KubeObject, Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";
import { CuttableLine } from "./control-plane.ts";
import { log } from "./objects.ts";

const LEASE_MS = 2_000;

/** One candidate with its own line to the API server; says when it leads and when it stops. */
async function candidate(identity: string, kubeconfig: string, book: string[]) {
  const access = await loadKubeAccess(kubeconfig);
  const line = new CuttableLine(access.server);
  const client = new KubeClient(await line.access(access));
  const stop = new AbortController();
  const leads = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const options = { client, namespace: "default", name: "test", identity, log, leaseMs: LEASE_MS };
  const running = leadWhenElected(
    options,
    async (signal) => {
      book.push(`${identity} leads`);
      leads.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      book.push(`${identity} ends`);
      stopped.resolve();
    },
    stop.signal,
  );
  return {
    line,
    leads: leads.promise,
    stopped: stopped.promise,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      client[Symbol.dispose]();
      await line[Symbol.asyncDispose]();
    },
  };
}

test(
  "one leads at a time: after an end, after a cut line, never two",
  { timeout: 60_000 },
  async () => {
    await using plane = await startApiServer();
    const book: string[] = [];
    const first = await candidate("first", plane.kubeconfig, book);
    await first.leads;
    await using second = await candidate("second", plane.kubeconfig, book);
    const startedMs = performance.now();
    await first[Symbol.asyncDispose]();
    await second.leads;
    const handoverMs = performance.now() - startedMs;
    assert(handoverMs < LEASE_MS, `the lease was given back, yet it took ${handoverMs} ms`);

    await using third = await candidate("third", plane.kubeconfig, book);
    second.line.cut();
    await third.leads;
    assert.deepEqual(book, [
      "first leads",
      "first ends",
      "second leads",
      "second ends",
      "third leads",
    ]);
    second.line.mend();

    using admin = new KubeClient(await loadKubeAccess(plane.kubeconfig));
    const place = { namespace: "default", name: "test" };
    const lease = await admin.get(LEASES, place, AbortSignal.timeout(5_000));
    assert.equal(lease.spec?.holderIdentity, "third");
    assert.equal(lease.spec?.leaseTransitions, 2);
  },
);

const REPLICA_SETS: Resource<KubeObject & { readonly spec: object }> = {
  prefix: "/apis/apps/v1",
  plural: "replicasets",
};

test("the Lease goes with the ReplicaSet of its holder", { timeout: 60_000 }, async () => {
  await using plane = await startApiServer();
  const stop = new AbortController();
  const { signal } = stop;
  using admin = new KubeClient(await loadKubeAccess(plane.kubeconfig));
  const follow = { client: admin, log, selection: { namespace: "default" } };
  const pods = new WatchedList({ ...follow, resource: PODS, project: (pod) => pod });
  const leases = new WatchedList({ ...follow, resource: LEASES, project: (lease) => lease });
  const following = [pods.start(signal), leases.start(signal)];
  const labels = { app: "controller" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "c" }] } };
  const replicaSet = {
    metadata: { namespace: "default", name: "controller" },
    spec: { replicas: 1, selector: { matchLabels: labels }, template },
  };
  const { metadata } = await admin.create(REPLICA_SETS, replicaSet, signal);
  const pod = await pods.until((list) => Array.from(list.values())[0], signal);
  {
    await using holder = await candidate(pod.metadata?.name ?? "", plane.kubeconfig, []);
    await holder.leads;
  }
  const lease = await admin.get(LEASES, { namespace: "default", name: "test" }, signal);
  assert.deepEqual(lease.metadata?.ownerReferences, [
    { apiVersion: "apps/v1", kind: "ReplicaSet", name: "controller", uid: metadata?.uid },
  ]);
  const place = { namespace: "default", name: "controller" };
  await admin.delete(REPLICA_SETS, place, {}, signal);
  await leases.until((list) => (list.get("default/test") === undefined ? true : undefined), signal);
  stop.abort();
  await Promise.all(following);
});
