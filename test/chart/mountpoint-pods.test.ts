import assert from "node:assert/strict";
import { test } from "node:test";
import type { V1DaemonSet } from "@kubernetes/client-node";
import { parseDefaultResources } from "../../src/volume/pod-resources.ts";
import { containersIn, render } from "./render.ts";
import type { Rendered } from "./render.ts";

function daemonSetIn(objects: readonly Rendered[]): V1DaemonSet {
  return objects.find(({ kind }) => kind === "DaemonSet") as unknown as V1DaemonSet;
}

test("controller and node service have one policy for what volumes may choose", async () => {
  for (const allowed of [false, true]) {
    const objects = await render(allowed ? { "node.allowVolumeEndpoints": true } : {});
    const flag = `--allow-volume-endpoints=${allowed}`;
    const [controller] = containersIn(objects);
    const [node] = daemonSetIn(objects).spec?.template.spec?.containers ?? [];
    assert(controller?.args?.includes(flag), flag);
    assert(node?.args?.includes(flag), flag);
  }
});

async function controllerFlags(values: object, names: RegExp): Promise<string[]> {
  const [controller] = containersIn(await render(values));
  return (controller?.args ?? []).filter((flag) => names.test(flag));
}

const SIZE = "mountpointPod.cache.defaultSizeLimit";
const MEMORY_SIZE = "mountpointPod.cache.defaultMemorySizeLimit";

test("caches have a size by default, and the administrator's where one is set", async () => {
  assert.deepEqual(await controllerFlags({}, /^--mountpoint-cache/), [
    "--mountpoint-cache-size=10Gi",
    "--mountpoint-cache-memory-size=512Mi",
  ]);
  const values = { [SIZE]: "3Gi", [MEMORY_SIZE]: "64Mi" };
  assert.deepEqual(await controllerFlags(values, /^--mountpoint-cache/), [
    "--mountpoint-cache-size=3Gi",
    "--mountpoint-cache-memory-size=64Mi",
  ]);
});

for (const size of [
  "",
  "0",
  "0Gi",
  "10GB",
  "10",
  "unlimited",
  "-1Gi",
  "1.5Gi",
  "512Ki",
  10,
  null,
]) {
  test(`a cache of ${JSON.stringify(size)} is refused`, async () => {
    for (const value of [SIZE, MEMORY_SIZE]) {
      await assert.rejects(render({ [value]: size }), /mountpointPod.cache.*(SizeLimit|required)/s);
    }
  });
}

test("resources and annotations reach the controller as they are", async () => {
  const names = /^--mountpoint-(resources|annotations)/;
  const standard = '{"limits":{},"requests":{"cpu":"10m","memory":"64Mi"}}';
  assert.deepEqual(await controllerFlags({}, names), [`--mountpoint-resources=${standard}`]);
  const values = {
    "mountpointPod.resources": { requests: { cpu: 0.5 }, limits: { memory: "1Gi" } },
    "mountpointPod.annotations": { "example.com/list": 'a,b="c"' },
  };
  const flags = await controllerFlags(values, names);
  const given = flags.map((flag) => JSON.parse(flag.slice(flag.indexOf("=") + 1)));
  assert.deepEqual(given, [
    { "example.com/list": 'a,b="c"' },
    { requests: { cpu: 0.5, memory: "64Mi" }, limits: { memory: "1Gi" } },
  ]);
  assert.deepEqual(parseDefaultResources(given[1]).requests, { cpu: "0.5", memory: "64Mi" });
});

for (const memory of ["64Mi", "95.9Mi", "100M", "512m", "98303Ki", "1", 64]) {
  test(`a memory limit of ${JSON.stringify(memory)} is refused, but not for mount-s3`, async () => {
    const values = { "mountpointPod.resources": { limits: { memory } } };
    const rule = "the engine s3csi needs at least 96Mi";
    const says = `mountpointPod.resources.limits.memory is \\W*${memory}\\W*: ${rule}`;
    await assert.rejects(render(values), new RegExp(says));
    const image = { repository: "there/s3csi-mount-s3" };
    const other = { "mountpointPod.engine": "mount-s3", "mountpointPod.mountS3.image": image };
    await render({ ...values, ...other });
  });
}

test("a memory limit of 96Mi or more reaches the controller", async () => {
  for (const memory of ["96Mi", "101M", "98304Ki", "1Gi", "0.1Gi", "100663296", 100_663_296]) {
    const values = { "mountpointPod.resources": { limits: { memory } } };
    assert.equal((await controllerFlags(values, /^--mountpoint-resources/)).length, 1);
  }
});

const limitIn = (values: object) => controllerFlags(values, /^--mountpoint-pods-per-namespace/);

test("namespaces have as many Mountpoint Pods as they want, unless a limit is set", async () => {
  const value = "mountpointPod.limits.perNamespace";
  assert.deepEqual(await limitIn({}), ["--mountpoint-pods-per-namespace=0"]);
  assert.deepEqual(await limitIn({ [value]: 5_000_000 }), [
    "--mountpoint-pods-per-namespace=5000000",
  ]);
  assert.deepEqual(await limitIn({ "mountpointPod.limits": null }), []); // of the release before
});

async function strategyFor(values: object): Promise<object> {
  return JSON.parse(JSON.stringify(daemonSetIn(await render(values)).spec?.updateStrategy));
}

test("the node service is updated as the administrator says", async () => {
  const rolling = { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "10%" } };
  assert.deepEqual(await strategyFor({}), rolling);
  assert.deepEqual(await strategyFor({ "node.updateStrategy.type": "OnDelete" }), {
    type: "OnDelete",
  });
  const one = { "node.updateStrategy.rollingUpdate.maxUnavailable": 1 };
  assert.deepEqual(await strategyFor(one), { ...rolling, rollingUpdate: { maxUnavailable: 1 } });
});

test("values of the release before, reused in an upgrade, give the same defaults", async () => {
  const added = ["mountpointPod.cache", "mountpointPod.resources", "mountpointPod.annotations"];
  const reused = Object.fromEntries([...added, "node.updateStrategy"].map((name) => [name, null]));
  assert.deepEqual(await controllerFlags(reused, /^--mountpoint-(cache|resources|annot)/), []);
  assert.deepEqual(await strategyFor(reused), await strategyFor({}));
});

// prettier-ignore
const wrong: [name: string, value: unknown, says: RegExp][] = [
  ["mountpointPod.resources",              { requests: { cpu: "many" } },              /resources\/requests\/cpu/],
  ["mountpointPod.resources",              { requests: { cpu: "0" } },                 /resources\/requests\/cpu/],
  ["mountpointPod.resources",              { limits: { memory: 0 } },                  /resources\/limits\/memory/],
  ["mountpointPod.resources",              { limits: { "ephemeral-storage": "1Gi" } }, /ephemeral-storage/],
  ["mountpointPod.resources",              { request: {} },                            /additional properties 'request'/],
  ["mountpointPod.limits",                 { perNamespace: -1 },                       /limits\/perNamespace/],
  ["mountpointPod.limits",                 { perNamespace: "ten" },                    /limits\/perNamespace/],
  ["mountpointPod.limits",                 { perNode: 1 },                             /additional properties 'perNode'/],
  ["mountpointPod.annotations",            { "s3.csi.scality.com/mount-id": "x" },     /mountpointPod\/annotations/],
  ["mountpointPod.annotations",            { team: 7 },                                /annotations\/team/],
  ["node.updateStrategy",                  { type: "Recreate" },                       /updateStrategy\/type/],
  ["node.updateStrategy.rollingUpdate",    { maxUnavailable: 0 },                      /maxUnavailable/],
  ["node.updateStrategy.rollingUpdate",    { maxUnavailable: "0%" },                   /maxUnavailable/],
  ["node.updateStrategy.rollingUpdate",    { maxSurge: 1 },                            /additional properties 'maxSurge'/],
];
for (const [name, value, says] of wrong) {
  test(`${name} ${JSON.stringify(value)} is refused`, async () => {
    await assert.rejects(render({ [name]: value }), says);
  });
}
