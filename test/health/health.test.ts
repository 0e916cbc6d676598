import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Registration } from "../../src/csi/gen/registration_pb.ts";
import { grpcClient } from "../node/grpc-client.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import type { TemporaryDirectory } from "../node/temporary-directory.ts";
import { CuttableLine, installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { Bench } from "../reconciler/objects.ts";
import { OK, RoleProcess } from "./role-process.ts";

const TIMEOUT = { timeout: 120_000 };
const HEALTH = "--health-port=0";

const stop = new AbortController();
const { signal } = stop;
let chart: InstalledChart;
let line: CuttableLine;
let dir: TemporaryDirectory;
let cuttableConfig: string;

before(async () => {
  chart = await installChart();
  dir = await temporaryDirectory();
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  line = new CuttableLine(access.server);
  const { server } = await line.access(access);
  cuttableConfig = join(dir.path, "cuttable.kubeconfig");
  writeFileSync(cuttableConfig, configFor(server));
}, TIMEOUT);
after(async () => {
  stop.abort();
  await line[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
  await chart[Symbol.asyncDispose]();
});

/** The administrator's, by another address of the API server. */
function configFor(server: URL): string {
  const config = JSON.parse(readFileSync(chart.kubeconfig, "utf8"));
  const [{ cluster }] = config.clusters;
  Object.assign(cluster, { server: server.origin, "tls-server-name": "kubernetes" });
  return JSON.stringify(config);
}

function controller(name: string, kubeconfig = chart.kubeconfig): RoleProcess {
  const args = ["controller", `--kubeconfig=${kubeconfig}`, HEALTH];
  return new RoleProcess(args, { env: { POD_NAME: name, POD_NAMESPACE: "default" } });
}

test(
  "two controllers are ready, one leads; when it ends the other goes on at once",
  TIMEOUT,
  async () => {
    const bench = new Bench(chart.admin, signal);
    await bench.start();
    await using first = controller("first");
    await first.logged("reconciler caches synced");
    await using second = controller("second");
    await second.logged("serving health");
    for (const one of [first, second]) await one.untilReadyz(signal);
    for (const one of [first, second]) assert.deepEqual(await one.health("healthz"), OK);
    await bench.volume("pv-handed-over");
    await bench.served(await bench.workload("before", "pv-handed-over"));

    const toldMs = performance.now();
    assert.equal(await first.end(), 0);
    await second.logged("elected");
    const tookMs = performance.now() - toldMs;
    assert(tookMs < 5_000, `the Lease lasts 15 s, it was given back, yet it took ${tookMs} ms`);
    const uid = await bench.workload("after", "pv-handed-over");
    await bench.served(uid);
    await second.untilReadyz(signal);
    assert.equal(await second.end(), 0);
  },
);

test("a controller without an API server is alive and not ready, and heals", TIMEOUT, async () => {
  line.cut();
  await using process = controller("cut-off", cuttableConfig);
  await process.logged("watch interrupted");
  const { status, text } = await process.health("readyz");
  assert.equal(status, 503);
  assert.match(text, /^watch of leases: not listed yet: GET .*\n$/);
  assert.deepEqual(await process.health("healthz"), OK);
  line.mend();
  await process.logged("reconciler caches synced");
  await process.untilReadyz(signal);

  line.cut();
  await process.logged("leadership lost");
  const away = await process.health("readyz");
  assert.match(away.text, /^watch of leases: GET /m);
  assert.deepEqual(await process.health("healthz"), OK);
  line.mend();
});

test("a node is ready once the kubelet has taken the driver", TIMEOUT, async () => {
  const kubelet = join(dir.path, "kubelet");
  const socket = join(kubelet, "plugins/csi.sock");
  const args = ["node", `--kubeconfig=${chart.kubeconfig}`, `--kubelet-path=${kubelet}`, HEALTH];
  await using node = new RoleProcess([...args, "--node-id=node-1", `--endpoint=unix://${socket}`]);
  await node.logged("reg.sock");
  const unregistered = "the kubelet has not registered the driver yet\n";
  await node.untilReadyz(signal, { status: 503, text: unregistered });
  assert.deepEqual(await node.health("healthz"), OK);

  const registry = join(kubelet, "plugins_registry/s3.csi.scality.com-reg.sock");
  const asKubelet = grpcClient(Registration, registry);
  await asKubelet.notifyRegistrationStatus({ pluginRegistered: false, error: "not today" });
  assert.match((await node.health("readyz")).text, /refused the registration: not today/);
  await asKubelet.notifyRegistrationStatus({ pluginRegistered: true });
  assert.deepEqual(await node.health("readyz"), OK);

  rmSync(socket);
  const { status, text } = await node.health("healthz");
  assert.deepEqual([status, text.includes(`socket ${socket}: `)], [503, true], text);
  assert.equal(await node.end(), 0);
});

test("a node that still waits for the API server ends when it is told to", TIMEOUT, async () => {
  line.cut();
  const kubelet = join(dir.path, "early");
  const args = ["node", `--kubeconfig=${cuttableConfig}`, `--kubelet-path=${kubelet}`];
  const socket = join(kubelet, "plugins/csi.sock");
  await using node = new RoleProcess([...args, "--node-id=node-1", `--endpoint=unix://${socket}`]);
  await node.logged("watch interrupted");
  assert.equal(await node.end(), 0);
  await node.logged('"ended"');
  line.mend();
});
