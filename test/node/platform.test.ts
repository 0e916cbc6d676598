import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { release } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { Code } from "@connectrpc/connect";
import { Node, VolumeCapability_AccessMode_Mode as Mode } from "../../src/csi/gen/csi_pb.ts";
import { Registration } from "../../src/csi/gen/registration_pb.ts";
import { EVENTS, NODES } from "../../src/kube/resource.ts";
import type { KubeEvent, KubeNode } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { readMounts } from "../../src/sys/mount-info.ts";
import { DRIVER_NAME } from "../../src/volume/names.ts";
import { RoleProcess } from "../health/role-process.ts";
import { installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { log } from "../reconciler/objects.ts";
import { mountAsFirstVersion } from "./first-version.ts";
import { grpcClient } from "./grpc-client.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const TIMEOUT = { timeout: 120_000 };
const OLD_KERNEL = join(import.meta.dirname, "old-kernel.ts");
const [SYS_OPENAT2, SYS_MOUNT_SETATTR] = [437, 442];
const MESSAGE = "node is below the supported platform";

const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let events: WatchedList<KubeEvent, KubeEvent>;
before(async () => {
  chart = owned.use(await installChart());
  const [client, project] = [chart.admin, (event: KubeEvent) => event];
  events = new WatchedList({ client, log, resource: EVENTS, project });
  const stop = new AbortController();
  const following = events.start(stop.signal);
  owned.defer(() => {
    stop.abort();
    return following;
  });
}, TIMEOUT);
after(() => owned.disposeAsync());

/** A registered node service on a Node with this kubelet, on a kernel that lacks these calls. */
async function startNode(name: string, kubeletVersion: string, ...lacking: readonly number[]) {
  const { admin } = chart;
  const created = await admin.create(NODES, { metadata: { name } }, AbortSignal.timeout(10_000));
  const status = { status: { nodeInfo: { kubeletVersion } } } as unknown as KubeNode;
  await admin.patchStatus(NODES, { name }, status, AbortSignal.timeout(10_000));
  await using all = new AsyncDisposableStack();
  const kubelet = join(all.use(await temporaryDirectory()).path, "kubelet");
  const socket = join(kubelet, "plugins/csi.sock");
  const node = all.use(
    new RoleProcess(
      [
        "node",
        `--kubeconfig=${chart.kubeconfig}`,
        `--kubelet-path=${kubelet}`,
        `--node-id=${name}`,
        `--endpoint=unix://${socket}`,
        "--health-port=0",
      ],
      lacking.length === 0
        ? {}
        : { env: { OLD_KERNEL_LACKS: lacking.join(","), NODE_OPTIONS: `--import=${OLD_KERNEL}` } },
    ),
  );
  await node.logged("reg.sock");
  const registry = join(kubelet, "plugins_registry/s3.csi.scality.com-reg.sock");
  await grpcClient(Registration, registry).notifyRegistrationStatus({ pluginRegistered: true });
  const kept = all.move();
  const uid = created.metadata?.uid;
  return { node, kubelet, socket, uid, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** The driver's event on a Node, past or to come: the node controller writes others. */
function eventOn(uid: string | undefined, signal: AbortSignal): Promise<KubeEvent> {
  const isIt = ({ regarding, reportingController }: KubeEvent) =>
    regarding?.kind === "Node" && regarding.uid === uid && reportingController === DRIVER_NAME;
  return events.until((all) => all.values().find(isIt), signal);
}

test("before Linux 5.12 a node says so and is ready", TIMEOUT, async (t) => {
  await using it = await startNode("linux-5-10", "v1.31.0", SYS_MOUNT_SETATTR);
  const { reason, level } = await it.node.logged(MESSAGE);
  assert.equal(level, "warn");
  assert.match(String(reason), /lacks mount_setattr, .*: use Linux 5\.12 or newer/);
  const { type, reason: word, note } = await eventOn(it.uid, t.signal);
  assert.deepEqual([type, word, note], ["Normal", "PlatformFallback", reason]);
  await it.node.untilReadyz(t.signal);
  const { port } = await it.node.logged("serving health");
  const verbose = await fetch(`http://127.0.0.1:${String(port)}/readyz?verbose`);
  assert.match(await verbose.text(), /^ok\n(note: .*\n)*note: Linux \S+ lacks mount_setattr/);
});

test(
  "before Linux 5.6 a node is not ready, and refuses volumes with a reason",
  TIMEOUT,
  async (t) => {
    await using it = await startNode("linux-5-4", "v1.31.0", SYS_OPENAT2, SYS_MOUNT_SETATTR);
    const words = `Linux ${release()} lacks openat2, volumes can't be mounted: use Linux 5.6 or newer`;
    const { reason, level } = await it.node.logged(MESSAGE);
    assert.deepEqual([level, String(reason).startsWith(words)], ["error", true], String(reason));
    const { type, reason: word } = await eventOn(it.uid, t.signal);
    assert.deepEqual([type, word], ["Warning", "UnsupportedPlatform"]);
    await it.node.untilReadyz(t.signal, { status: 503, text: `${words}\n` });
    const rawMessage = `node linux-5-4: ${words}`;
    await assert.rejects(publish(it, "w-1"), { code: Code.FailedPrecondition, rawMessage });
  },
);

test("before Linux 5.6 a workload keeps its mount of the first version", TIMEOUT, async () => {
  await using it = await startNode("first-version", "v1.31.0", SYS_OPENAT2, SYS_MOUNT_SETATTR);
  const target = targetOf(it, "w-1");
  using _engine = mountAsFirstVersion(target);
  const mounts = () => readMounts().filter(({ mountPoint }) => mountPoint === target);
  const mounted = mounts();
  assert.equal(mounted.length, 1);
  await publish(it, "w-1"); // as the kubelet repeats it
  assert.deepEqual(mounts(), mounted);
});

test("a node whose kubelet is too old says so, and is not ready", TIMEOUT, async (t) => {
  await using it = await startNode("kubelet-1-30", "v1.30.14");
  const words = "the kubelet is v1.30.14: use Kubernetes 1.31 or newer";
  await it.node.logged(words);
  assert.match((await eventOn(it.uid, t.signal)).note ?? "", new RegExp(words));
  await it.node.untilReadyz(t.signal, { status: 503, text: `${words}\n` });
});

interface Kubelet {
  readonly kubelet: string;
  readonly socket: string;
}

/** The target of a workload's volume; the kubelet has made the directory above it. */
function targetOf({ kubelet }: Kubelet, workload: string): string {
  const targetPath = join(kubelet, `pods/${workload}/volumes/kubernetes.io~csi/pv-1/mount`);
  mkdirSync(dirname(targetPath), { recursive: true });
  return targetPath;
}

async function publish(it: Kubelet, workload: string): Promise<void> {
  const targetPath = targetOf(it, workload);
  const accessMode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
  const accessType = { case: "mount", value: {} } as const;
  const volumeCapability = { accessMode, accessType };
  const volumeContext = { bucketName: "bucket" };
  const request = { volumeId: "vol-1", targetPath, volumeCapability, volumeContext };
  await grpcClient(Node, it.socket).nodePublishVolume(request);
}
