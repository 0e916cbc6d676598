import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Failure } from "../../src/base/failure.ts";
import { EventWriter } from "../../src/kube/event-writer.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { CSI_DRIVERS, EVENTS, LEASES, NODES, PODS, PVS, SECRETS } from "../../src/kube/resource.ts";
import type { KubeEvent, KubeObject, Resource } from "../../src/kube/resource.ts";
import {
  ATTACHMENTS,
  ATTACHMENT_API_VERSION,
  ATTACHMENT_KIND,
} from "../../src/volume/attachment.ts";
import type { MountpointS3PodAttachment } from "../../src/volume/attachment.ts";
import { DRIVER_NAME } from "../../src/volume/names.ts";
import { RELEASE_NAMESPACE, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";
import { MOUNTPOINTS, log, untilDenied } from "./objects.ts";

const CHART = join(import.meta.dirname, "../../deploy/chart");
const TIMEOUT = { timeout: 60_000 };
const NODE_ACCOUNT = "s3-csi-driver-sa";
const CONTROLLER_ACCOUNT = "s3-csi-driver-controller-sa";
const signal = AbortSignal.timeout(300_000);
const DENIED = { kind: "denied" };

let chart: InstalledChart;
before(async () => {
  chart = await installChart();
}, TIMEOUT);
after(() => chart[Symbol.asyncDispose]());

function client(account: string, node?: string): KubeClient {
  return new KubeClient(chart.accessOf(account, node));
}

function attachment(nodeName: string): MountpointS3PodAttachment {
  return {
    apiVersion: ATTACHMENT_API_VERSION,
    kind: ATTACHMENT_KIND,
    metadata: { name: `of-${nodeName}` },
    spec: {
      nodeName,
      persistentVolumeName: "pv",
      volumeID: "v",
      mountOptions: "",
      workloadFSGroup: "",
      mountpointS3PodAttachments: {},
    },
  };
}

async function attachmentOn(nodeName: string): Promise<{ readonly name: string }> {
  const { metadata } = await chart.admin.create(ATTACHMENTS, attachment(nodeName), signal);
  return { name: metadata.name };
}

test("a node service writes its part of the status of its own attachments", TIMEOUT, async () => {
  const [own, other] = [await attachmentOn("n1"), await attachmentOn("n2")];
  using node = client(NODE_ACCOUNT, "n1");
  const facts = { status: { mountpointPods: { "mp-1": { engineVersion: "1.0" } } } };
  await untilDenied(signal, () => node.patchStatus(ATTACHMENTS, other, facts, signal));

  const { status } = await node.patchStatus(ATTACHMENTS, own, facts, signal);
  assert.equal(status?.mountpointPods?.["mp-1"]?.engineVersion, "1.0");
  const phase = { status: { phase: "Mounted" } };
  await assert.rejects(node.patchStatus(ATTACHMENTS, own, phase, signal), DENIED);
  await assert.rejects(node.patch(ATTACHMENTS, own, { spec: { nodeName: "x" } }, signal), DENIED);
  await assert.rejects(node.delete(ATTACHMENTS, own, {}, signal), DENIED);
  using nowhere = client(NODE_ACCOUNT);
  await assert.rejects(nowhere.patchStatus(ATTACHMENTS, own, facts, signal), DENIED);

  using controller = client(CONTROLLER_ACCOUNT);
  const both = await controller.patchStatus(ATTACHMENTS, own, phase, signal);
  assert.equal(both.status?.phase, "Mounted");
  assert.deepEqual(both.status.mountpointPods, facts.status.mountpointPods);
});

/** Takes the Lease of another holder, as an elected leader does. */
async function takeLease(controller: KubeClient, name: string): Promise<string | undefined> {
  const place = { namespace: RELEASE_NAMESPACE, name };
  const spec = { holderIdentity: "another" };
  const lease = await chart.admin.create(LEASES, { metadata: place, spec }, signal);
  const taken = { ...lease, spec: { holderIdentity: "controller" } };
  const { spec: now } = await controller.update(LEASES, place, taken, signal);
  return now?.holderIdentity;
}

test("the controller takes its own Lease, and none of another component", TIMEOUT, async () => {
  using controller = client(CONTROLLER_ACCOUNT);
  assert.equal(await takeLease(controller, "s3csi-controller"), "controller");
  await assert.rejects(takeLease(controller, "kube-scheduler"), DENIED);
});

test("nobody may touch the pods of others", TIMEOUT, async () => {
  using node = client(NODE_ACCOUNT, "n1");
  await node.list(PODS, { fieldSelector: "spec.nodeName=n1" }, signal); // who is being deleted
  for (const namespace of [MOUNTPOINTS, "default"]) {
    await assert.rejects(node.delete(PODS, { namespace, name: "x" }, {}, signal), DENIED);
    await assert.rejects(node.patch(PODS, { namespace, name: "x" }, {}, signal), DENIED);
  }
  using controller = client(CONTROLLER_ACCOUNT);
  const place = { namespace: "default", name: "x" };
  await assert.rejects(controller.delete(PODS, place, {}, signal), DENIED);
  await assert.rejects(controller.patch(PODS, place, {}, signal), DENIED);
});

/** What the driver's own writer makes of a few words, as the API server has stored it. */
async function eventBy(node: KubeClient, instance: string): Promise<KubeEvent> {
  const regarding = {
    apiVersion: "v1",
    kind: "Pod",
    namespace: "default",
    name: "w",
    uid: instance,
  };
  const text = { type: "Normal", reason: "MountRecovered", action: "Serve", note: "." } as const;
  const writer = new EventWriter(node, { controller: DRIVER_NAME, instance }, log);
  await writer.write(regarding, text, signal);
  const { items } = await chart.admin.list(EVENTS, { namespace: "default" }, signal);
  const found = items.find((event) => event.regarding?.uid === instance);
  assert(found !== undefined, `the node service on ${instance} may write its events`);
  return found;
}

test("a node service writes events about pods and its own Node, in its name", TIMEOUT, async () => {
  using node = client(NODE_ACCOUNT, "n1");
  const stored = await eventBy(node, "n1");
  let count = 0;
  const write = (by: KubeClient, fields: Partial<KubeEvent>) => {
    count += 1;
    const metadata = { name: `other.${count}`, namespace: "default" };
    return by.create(EVENTS, { ...stored, metadata, ...fields }, signal);
  };
  const place = { name: "n2", uid: "n2" };
  const foreign = { reportingInstance: "n2" };
  await untilDenied(signal, () => write(node, foreign));
  const refused: [fields: Partial<KubeEvent>, why: RegExp][] = [
    [foreign, /on n1 may not write an event of s3.csi.scality.com on n2/],
    [{ reportingInstance: "n" }, /on n1 may not write/],
    [{ reportingController: "kubelet" }, /on n1 may not write an event of kubelet on n1/],
    [
      { regarding: { apiVersion: "v1", kind: "Node", ...place } },
      /about pods and its own Node, and/,
    ],
    [{ regarding: { apiVersion: "apps/v1", kind: "Pod", ...place } }, /about pods/],
    [{ related: { apiVersion: "v1", kind: "Node", ...place } }, /about pods/],
  ];
  for (const [fields, why] of refused) {
    await assert.rejects(write(node, fields), (error: unknown) => {
      assert(error instanceof Failure && error.kind === "denied");
      assert.match(error.message, why);
      return true;
    });
  }
  await write(node, { regarding: { apiVersion: "v1", kind: "Node", name: "n1", uid: "n1" } });
  using nowhere = client(NODE_ACCOUNT);
  await assert.rejects(write(nowhere, { reportingInstance: "" }), { message: /reportingInstance/ });
  await assert.rejects(write(nowhere, {}), DENIED);
  const long = `n3.${"x".repeat(250)}`;
  using elsewhere = client(NODE_ACCOUNT, long);
  await eventBy(elsewhere, long);
  using controller = client(CONTROLLER_ACCOUNT);
  await write(controller, { reportingInstance: "controller-0" });
  const named = { namespace: "default", name: stored.metadata?.name ?? "" };
  await assert.rejects(node.patch(EVENTS, named, { note: "another" }, signal), DENIED);
  await assert.rejects(node.delete(EVENTS, named, {}, signal), DENIED);
});

test("nobody may do what he need not", TIMEOUT, async () => {
  using node = client(NODE_ACCOUNT, "n1");
  using controller = client(CONTROLLER_ACCOUNT);
  const name = "x";
  const refused = [
    () => node.list(SECRETS, {}, signal),
    () => node.list(NODES, {}, signal),
    () => node.list(PVS, {}, signal),
    () => node.create(PODS, { metadata: { namespace: MOUNTPOINTS, name } }, signal),
    () => node.create(ATTACHMENTS, attachment("n1"), signal),
    () => controller.list(SECRETS, {}, signal),
    () => controller.create(PODS, { metadata: { namespace: "default", name } }, signal),
    () => controller.patch(NODES, { name }, {}, signal),
    () => controller.patch(CSI_DRIVERS, { name }, {}, signal),
    () => node.patch(CSI_DRIVERS, { name: DRIVER_NAME }, {}, signal),
    () => controller.patch(SECRETS, { namespace: "default", name }, {}, signal),
  ];
  for (const call of refused) await assert.rejects(call, DENIED);
});

interface Review extends KubeObject {
  readonly spec: { readonly resourceAttributes: object };
  readonly status?: { readonly allowed: boolean };
}
const REVIEWS: Resource<Review> = {
  prefix: "/apis/authorization.k8s.io/v1",
  plural: "selfsubjectaccessreviews",
};

/** `verb resource`, in a namespace or in all of them. */
async function may(who: KubeClient, right: string, namespace = ""): Promise<boolean> {
  const [verb, resource] = right.split(" ");
  const group = resource === "storageclasses" ? "storage.k8s.io" : "";
  const resourceAttributes = { verb, resource, group, namespace };
  const { status } = await who.create(REVIEWS, { spec: { resourceAttributes } }, signal);
  return status?.allowed === true;
}

/** The API server's picture of the roles follows their change: there is no event for it. */
async function untilMay(want: boolean, ...question: Parameters<typeof may>): Promise<void> {
  while ((await may(...question)) !== want) signal.throwIfAborted();
}

const MAKING_VOLUMES = ["create persistentvolumes", "patch persistentvolumeclaims"];
const MODE = "controller.provisioner.mode";
const upgrade = (...values: string[]) =>
  chart.helm("upgrade", "s3csi", CHART, ...values.flatMap((value) => ["--set-json", value]));

test("Secrets are read for volumes alone, everywhere or where it was said", TIMEOUT, async () => {
  using controller = client(CONTROLLER_ACCOUNT);
  assert(await may(controller, "get secrets"));
  assert(!(await may(controller, "list secrets")), "by name, as a StorageClass names it");

  await upgrade('controller.provisioner.secretNamespaces=["kube-public"]');
  await untilMay(false, controller, "get secrets");
  await untilMay(true, controller, "get secrets", "kube-public");
  for (const right of MAKING_VOLUMES) assert(await may(controller, right), right);

  await upgrade(`${MODE}="none"`);
  await untilMay(false, controller, "get secrets", "kube-public");
  await untilMay(false, controller, "list storageclasses");
  for (const right of MAKING_VOLUMES) assert(!(await may(controller, right)), right);
  assert(await may(controller, "watch persistentvolumes"), "workloads are served all the same");
});

test("the official provisioner beside the controller has what it asks for", TIMEOUT, async () => {
  using controller = client(CONTROLLER_ACCOUNT);
  await upgrade(`${MODE}="sidecar"`);
  const asked = [
    ...["get", "list", "watch", "create", "patch", "delete"].map(
      (one) => `${one} persistentvolumes`,
    ),
    ...["get", "list", "watch", "update"].map((one) => `${one} persistentvolumeclaims`),
    ...["create", "update", "patch"].map((one) => `${one} events`),
    "list storageclasses",
    "get secrets",
    "get nodes",
  ];
  for (const right of asked) await untilMay(true, controller, right);
  assert.equal(await takeLease(controller, "s3-csi-scality-com"), "controller");
  await assert.rejects(takeLease(controller, "another-component"), DENIED);
  await upgrade(`${MODE}="builtin"`);
  await untilMay(false, controller, "create events");
  await untilMay(true, controller, "get secrets");
});
