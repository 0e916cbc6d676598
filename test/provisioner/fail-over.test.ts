import assert from "node:assert/strict";
import { test } from "node:test";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { LEASES } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { ControllerProcess } from "./controller-process.ts";
import { Users, environmentOf, log } from "./objects.ts";

const FAIL_OVER_LIMIT_MS = 20_000;

test("the leader is killed: the other provisions within 20 s", { timeout: 90_000 }, async () => {
  await using plane = await startApiServer();
  await using s3 = await startS3Server();
  using admin = new KubeClient(await loadKubeAccess(plane.kubeconfig));
  const stop = new AbortController();
  using _stop = { [Symbol.dispose]: () => stop.abort() };
  const users = new Users(admin, s3, stop.signal);
  await users.start();
  await users.storageClass("plain");
  const leases = new WatchedList({ client: admin, log, resource: LEASES, project: (one) => one });
  leases.start(stop.signal).catch((error: unknown) => log.error(error));
  const { kubeconfig } = plane;
  const env = environmentOf(s3);
  await using first = new ControllerProcess({ kubeconfig, env, name: "first" });
  await leases.until((list) => isHeldBy(list, "first"), stop.signal);
  await users.claim("before", "plain");
  await users.bound("before");
  await using second = new ControllerProcess({ kubeconfig, env, name: "second" });
  await using third = new ControllerProcess({ kubeconfig, env, name: "third" });
  for (const standby of [second, third]) await standby.standingBy();
  await first.end("SIGKILL");
  const killedMs = performance.now();
  await users.claim("after", "plain");
  await users.bound("after");
  const tookMs = performance.now() - killedMs;
  assert(tookMs < FAIL_OVER_LIMIT_MS, `${Math.round(tookMs)} ms`);
  await users.removed("before");
  await users.removed("after");
});

interface Leases {
  get(key: string): { readonly spec?: { readonly holderIdentity?: string } } | undefined;
}

function isHeldBy(list: Leases, name: string): true | undefined {
  return list.get("default/s3csi-controller")?.spec?.holderIdentity === name ? true : undefined;
}
