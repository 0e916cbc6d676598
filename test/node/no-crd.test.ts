import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { Node, VolumeCapability_AccessMode_Mode as Mode } from "../../src/csi/gen/csi_pb.ts";
import { Registration } from "../../src/csi/gen/registration_pb.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import type { MountpointS3PodAttachment } from "../../src/volume/attachment.ts";
import { RoleProcess } from "../health/role-process.ts";
import { CHART, installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { NODE } from "../reconciler/objects.ts";
import { grpcClient } from "./grpc-client.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const TIMEOUT = { timeout: 180_000 };
const CRD = "crd/mountpoints3podattachments.s3.csi.scality.com";
const POD = "mp-1";
const ATTACHMENT = {
  apiVersion: "s3.csi.scality.com/v2",
  kind: "MountpointS3PodAttachment",
  metadata: { name: "s3pa-1" },
  spec: {
    nodeName: NODE,
    persistentVolumeName: "pv-1",
    volumeID: "vol-1",
    mountOptions: "",
    workloadFSGroup: "",
    mountpointS3PodAttachments: {
      [POD]: [{ workloadPodUID: "w-1", attachmentTime: "2026-01-15T10:30:00Z" }],
    },
  },
};

const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let kubelet: string;
before(async () => {
  chart = owned.use(await installChart());
  kubelet = join(owned.use(await temporaryDirectory()).path, "kubelet");
}, TIMEOUT);
after(() => owned.disposeAsync());

test("without the CRD a node registers and says what is missing; it heals", TIMEOUT, async (t) => {
  await chart.kubectl("delete", CRD, "--wait");
  const socket = join(kubelet, "plugins/csi.sock");
  await using node = new RoleProcess([
    "node",
    `--kubeconfig=${chart.kubeconfig}`,
    `--kubelet-path=${kubelet}`,
    `--node-id=${NODE}`,
    `--endpoint=unix://${socket}`,
    "--health-port=0",
  ]);
  await Promise.race([node.logged("reg.sock"), ended(t.signal)]);
  const registry = join(kubelet, "plugins_registry/s3.csi.scality.com-reg.sock");
  const asKubelet = grpcClient(Registration, registry);
  await asKubelet.notifyRegistrationStatus({ pluginRegistered: true });
  const { text } = await node.health("readyz");
  assert.match(text, /^watch of mountpoints3podattachments: not listed yet: .*404/);

  const missing = await publish(socket);
  assert.equal(missing.code, Code.Unavailable);
  assert.match(missing.rawMessage, /^Failed to list MountpointS3PodAttachments: /);
  const [, command = ""] = /: run `helm ([^`]+)`$/.exec(missing.rawMessage) ?? [];
  assert.equal(command, "upgrade s3csi deploy/chart --namespace kube-system --reuse-values");

  const words = command
    .replace("deploy/chart", CHART)
    .replace(/--namespace \S+ /, "")
    .split(" ");
  await chart.helm(...words);
  await chart.kubectl("wait", CRD, "--for=condition=Established", "--timeout=60s");
  const attachment = ATTACHMENT as unknown as MountpointS3PodAttachment;
  await chart.admin.create(ATTACHMENTS, attachment, t.signal);
  await node.untilReadyz(t.signal);
  const found = await publish(socket);
  assert.equal(found.code, Code.Unavailable);
  const waits = `Timed out waiting for Mountpoint Pod ${POD} to be scheduled on this node: it is gone`;
  assert.equal(found.rawMessage, waits);
  assert.equal(await node.end(), 0);
});

/** How a publish fails, as the kubelet sees it. */
async function publish(socket: string): Promise<ConnectError> {
  const targetPath = join(kubelet, "pods/w-1/volumes/kubernetes.io~csi/pv-1/mount");
  mkdirSync(dirname(targetPath), { recursive: true });
  const request = {
    volumeId: "vol-1",
    targetPath,
    volumeCapability: {
      accessMode: { mode: Mode.MULTI_NODE_MULTI_WRITER },
      accessType: { case: "mount", value: {} },
    },
    volumeContext: { bucketName: "bucket", "csi.storage.k8s.io/pod.uid": "w-1" },
  } as const;
  const answer = grpcClient(Node, socket).nodePublishVolume(request, { timeoutMs: 120_000 });
  return answer.then(
    () => assert.fail("it was published"),
    (error: unknown) => ConnectError.from(error),
  );
}

function ended(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("the node does not register")));
  });
}
