import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pod } from "../kube/resource.ts";
import { workloadOf } from "./facts.ts";
import type { Attachment, Volume, Workload } from "./facts.ts";
import { World } from "./world.ts";

const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "c" } }];
const spec = { nodeName: "n1", volumes, containers: [] };
const workload = (
  uid: string,
  phase: string,
  conditions: { type: string; status: string }[] = [],
) =>
  workloadOf({
    metadata: { uid, name: uid, namespace: "ns" },
    spec,
    status: { phase, conditions },
  });

test("who has ended is over, however many there are", () => {
  const world = new World(() => {});
  for (let i = 0; i < 10_100; i += 1) {
    world.workloadChanged(workload(`w-${i}`, "Succeeded"), undefined);
  }
  for (const uid of ["w-0", "w-10099"]) assert.equal(world.isOver(uid), true, uid);
  assert.equal(world.isOver("w-another"), undefined);
  world.workloadChanged(workload("w-alive", "Running"), undefined);
  assert.equal(world.isOver("w-alive"), false);
});

const READY = [{ type: "PodReadyToStartContainers", status: "True" }];
const CLAIM = { namespace: "ns", name: "c", uid: "c1", volumeName: "pv" };
const volumeWith = (attributes: Record<string, string>): Volume => ({
  name: "pv",
  uid: "pv1",
  volumeId: "v",
  mountOptions: [],
  attributes,
  claimKey: "ns/c",
  claimUid: "c1",
});

test("a volume that can't be right is told to those that wait for it alone", () => {
  const told: string[] = [];
  const world = new World(({ name }) => told.push(name));
  world.claimChanged("ns/c", CLAIM);
  world.volumeChanged("pv", volumeWith({ authenticationSource: "pod" }), undefined);
  world.workloadChanged(workload("runs", "Running", READY), undefined);
  assert.deepEqual(told, []);
  world.workloadChanged(workload("waits", "Pending"), undefined);
  assert.deepEqual(told, ["waits"]);
});

test("the mount of a workload that was taken off its attachment is remembered while it lives", () => {
  const world = new World(() => {});
  const attachment: Attachment = {
    name: "s3pa-1",
    uid: "a",
    resourceVersion: "1",
    spec: {
      nodeName: "n1",
      persistentVolumeName: "pv",
      volumeID: "v",
      mountOptions: "",
      workloadFSGroup: "",
      mountpointS3PodAttachments: {
        "mp-1": [{ workloadPodUID: "w1", attachmentTime: "" }],
        "mp-2": [{ workloadPodUID: "w2", attachmentTime: "" }],
      },
      mountIDs: { "mp-2": "mp-0" },
    },
  };
  for (const uid of ["w1", "w2"]) {
    world.workloadChanged(workload(uid, "Running", READY), undefined);
  }
  world.attachmentChanged("s3pa-1", attachment, undefined);
  assert.equal(world.lastMount("w1", "pv"), undefined);
  world.attachmentChanged("s3pa-1", undefined, attachment);
  assert.equal(world.lastMount("w1", "pv")?.mountId, "mp-1");
  assert.equal(world.lastMount("w2", "pv")?.mountId, "mp-0");
  assert.equal(world.lastMount("w1", "another"), undefined);
  world.workloadChanged(undefined, workload("w1", "Running", READY));
  assert.equal(world.lastMount("w1", "pv"), undefined);
});

function podWith(uid: string, ...claims: string[]): Workload {
  const found = workload(uid, "Pending");
  assert(found !== undefined);
  return { ...found, claims, unmounted: [] };
}

/** Claims a and b, whose volumes have one handle. */
function worldOfTwins(told: string[]): World {
  const world = new World((_workload, { name }, { message }) => told.push(`${name}: ${message}`));
  for (const name of ["a", "b"]) {
    const claim = { namespace: "ns", name, uid: `${name}1`, volumeName: `pv-${name}` };
    const binding = { name: `pv-${name}`, claimKey: `ns/${name}`, claimUid: `${name}1` };
    world.claimChanged(`ns/${name}`, claim);
    world.volumeChanged(
      `pv-${name}`,
      { ...volumeWith({ bucketName: "bucket" }), ...binding },
      undefined,
    );
  }
  return world;
}

test("two volumes of one pod with one handle are refused, and the pod is told", () => {
  const told: string[] = [];
  const world = worldOfTwins(told);
  assert.equal(world.workloadChanged(podWith("one", "a"), undefined).size, 1);
  assert.equal(world.workloadChanged(podWith("another", "b"), undefined).size, 1);
  assert.deepEqual(told, []);
  assert.equal(world.workloadChanged(podWith("both", "a", "b"), undefined).size, 0);
  const words = "in the same pod: give each PersistentVolume a volumeHandle of its own";
  assert.deepEqual(told, [
    `pv-a: volumeHandle is "v", as that of volume pv-b ${words}`,
    `pv-b: volumeHandle is "v", as that of volume pv-a ${words}`,
  ]);
});

type Containers = NonNullable<Pod["spec"]>["containers"];

const claimed = (name: string) => ({ name, persistentVolumeClaim: { claimName: name } });
const mounting = (...names: string[]) => names.map((name) => ({ name, mountPath: `/${name}` }));
const of = (volume: string): Containers => [{ name: volume, volumeMounts: mounting(volume) }];

test("a volume that no container mounts is none that a kubelet could take for another", () => {
  const told: string[] = [];
  const world = worldOfTwins(told);
  const wanted = (uid: string, fields: Partial<NonNullable<Pod["spec"]>>) => {
    const twins = { nodeName: "n1", volumes: [claimed("a"), claimed("b")], containers: of("a") };
    const metadata = { uid, name: uid, namespace: "ns" };
    const pod = workloadOf({ metadata, spec: { ...twins, ...fields } });
    return world.workloadChanged(pod, undefined).size;
  };
  assert.equal(wanted("mounts-one", {}), 2);
  assert.equal(wanted("mounts-none", { containers: [{ name: "c" }] }), 2);
  assert.deepEqual(told, []);
  const devices = [{ name: "b", devicePath: "/dev/b" }];
  const more: [name: string, fields: Partial<NonNullable<Pod["spec"]>>][] = [
    ["containers", { containers: [...of("a"), ...of("b")] }],
    ["init", { initContainers: of("b") }],
    ["ephemeral", { ephemeralContainers: of("b") }],
    ["devices", { initContainers: [{ name: "b", volumeDevices: devices }] }],
  ];
  for (const [name, fields] of more) assert.equal(wanted(name, fields), 0, name);
  assert.equal(told.length, 2 * more.length);
});
