import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine } from "./engine.ts";
import { checkDefaultLimits, engineCacheMib, parseDefaultResources } from "./pod-resources.ts";
import { POD_POLICY, checkVolumesFor, parsePodSettings } from "./pod-settings.ts";
import type { PodSettings } from "./pod-settings.ts";

const DEFAULTS: PodSettings = {
  cache: undefined,
  resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: {} },
  serviceAccountName: undefined,
  env: {},
};
const CPU = "mountpointContainerResourcesRequestsCpu";
const MEMORY = "mountpointContainerResourcesRequestsMemory";
const MEMORY_LIMIT = "mountpointContainerResourcesLimitsMemory";
const CLASS = "cacheEphemeralStorageClassName";
const SIZE = "cacheEphemeralStorageResourceRequest";

function onDisk(size: string) {
  return { requests: { cpu: "10m", memory: "64Mi", "ephemeral-storage": size }, limits: {} };
}

// prettier-ignore
const cases: [name: string, attributes: Record<string, string>, options: string[], want: Partial<PodSettings>][] = [
  ["nothing asked",                     { bucketName: "b" },                                          [],                      {}],
  ["requests",                          { [CPU]: "1", [MEMORY]: "1Gi" },                              [],                      { resources: { requests: { cpu: "1", memory: "1Gi" }, limits: {} } }],
  ["a limit is the request too",        { [MEMORY_LIMIT]: "96Mi" },                                   [],                      { resources: { requests: { cpu: "10m" }, limits: { memory: "96Mi" } } }],
  ["a limit and a request",             { [MEMORY_LIMIT]: "2Gi", [MEMORY]: "1Gi" },                   [],                      { resources: { requests: { cpu: "10m", memory: "1Gi" }, limits: { memory: "2Gi" } } }],
  ["a service account",                 { mountpointPodServiceAccountName: "s3-reader" },             [],                      { serviceAccountName: "s3-reader" }],
  ["proxies are left out",              { "mountpointEnv.HTTPS_PROXY": "http://p:1", "mountpointEnv.NO_PROXY": ".local" }, [], {}],
  ["a cache on the node's disk",        { cache: "emptyDir" },                                        [],                      { cache: { kind: "emptyDir", sizeLimit: "10Gi" }, resources: onDisk("10Gi") }],
  ["one with a limit",                  { cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi" },         [],                      { cache: { kind: "emptyDir", sizeLimit: "1Gi" }, resources: onDisk("1Gi") }],
  ["one in memory",                     { cache: "emptyDir", cacheEmptyDirMedium: "Memory" },         [],                      { cache: { kind: "emptyDir", sizeLimit: "512Mi", medium: "Memory" }, resources: { requests: { cpu: "10m", memory: "576Mi" }, limits: {} } }],
  ["one in memory with a limit",        { cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi", cacheEmptyDirMedium: "Memory" }, [], { cache: { kind: "emptyDir", sizeLimit: "1Gi", medium: "Memory" }, resources: { requests: { cpu: "10m", memory: "1088Mi" }, limits: {} } }],
  ["one in memory with a request",      { cache: "emptyDir", cacheEmptyDirMedium: "Memory", [MEMORY]: "1Gi" }, [],             { cache: { kind: "emptyDir", sizeLimit: "512Mi", medium: "Memory" }, resources: { requests: { cpu: "10m", memory: "1Gi" }, limits: {} } }],
  ["an empty medium is none",           { cache: "emptyDir", cacheEmptyDirMedium: "" },               [],                      { cache: { kind: "emptyDir", sizeLimit: "10Gi" }, resources: onDisk("10Gi") }],
  ["a cache on a volume of its own",    { cache: "ephemeral", [CLASS]: "fast", [SIZE]: "10Gi" },      [],                      { cache: { kind: "ephemeral", storageClassName: "fast", size: "10Gi" } }],
  ["a cache by mount option",           {},                                                           ["uid=1", "cache /tmp"], { cache: { kind: "emptyDir", sizeLimit: "10Gi" }, resources: onDisk("10Gi") }],
  ["one as large as its option says",   {},                                                           ["cache", "--max-cache-size 20000"], { cache: { kind: "emptyDir", sizeLimit: "21053Mi" }, resources: onDisk("21053Mi") }],
  ["a small one has its margin",        {},                                                           ["cache=/x", "max-cache-size=10"], { cache: { kind: "emptyDir", sizeLimit: "12Mi" }, resources: onDisk("12Mi") }],
  ["a size beside the option wins",     { cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi" },         ["max-cache-size=100"],  { cache: { kind: "emptyDir", sizeLimit: "1Gi" }, resources: onDisk("1Gi") }],
  ["a size that is none is no size",    { cache: "emptyDir" },                                        ["max-cache-size=0"],    { cache: { kind: "emptyDir", sizeLimit: "10Gi" }, resources: onDisk("10Gi") }],
  ["another option with cache in it",   {},                                                           ["max-cache-size=1"],    {}],
];
for (const [name, attributes, options, want] of cases) {
  test(`pod settings: ${name}`, () => {
    assert.deepEqual(parsePodSettings(attributes, options), { ...DEFAULTS, ...want });
  });
}

test("pod settings: proxies are the volume's where the policy says so", () => {
  const attributes = { "mountpointEnv.HTTPS_PROXY": "http://p:1", "mountpointEnv.NO_PROXY": "a" };
  const policy = { ...POD_POLICY, volumeEndpoints: true };
  const { env } = parsePodSettings(attributes, [], policy);
  assert.deepEqual(env, { HTTPS_PROXY: "http://p:1", NO_PROXY: "a" });
});

test("pod settings: the administrator's sizes are those of caches without one", () => {
  const policy = { ...POD_POLICY, cacheSizes: { disk: "3Gi", memory: "64Mi" } };
  const sizeOf = (attributes: Record<string, string>, options: string[] = []) => {
    const { cache } = parsePodSettings(attributes, options, policy);
    return cache?.kind === "emptyDir" ? cache.sizeLimit : undefined;
  };
  assert.equal(sizeOf({}, ["cache"]), "3Gi");
  assert.equal(sizeOf({ cache: "emptyDir" }), "3Gi");
  assert.equal(sizeOf({ cache: "emptyDir", cacheEmptyDirMedium: "Memory" }), "64Mi");
  assert.equal(sizeOf({ cache: "emptyDir", cacheEmptyDirSizeLimit: "5Gi" }), "5Gi");
});

const DEFAULTS_OF_CHART = {
  requests: { cpu: "100m", memory: "256Mi" },
  limits: { cpu: "1", memory: "512Mi" },
};
const IN_MEMORY = { cache: "emptyDir", cacheEmptyDirMedium: "Memory" };
const CPU_LIMIT = "mountpointContainerResourcesLimitsCpu";
// prettier-ignore
const chosen: [name: string, attributes: Record<string, string>, requests: object, limits: object][] = [
  ["the administrator's",                   {},                                       { cpu: "100m", memory: "256Mi" }, { cpu: "1", memory: "512Mi" }],
  ["a request of its own",                  { [CPU]: "500m" },                        { cpu: "500m", memory: "256Mi" }, { cpu: "1", memory: "512Mi" }],
  ["a request above the default limit",     { [MEMORY]: "1Gi" },                      { cpu: "100m", memory: "1Gi" },   { cpu: "1", memory: "1Gi" }],
  ["a limit is the request too",            { [MEMORY_LIMIT]: "128Mi" },              { cpu: "100m" },                  { cpu: "1", memory: "128Mi" }],
  ["both of its own",                       { [CPU]: "2", [CPU_LIMIT]: "4" },         { cpu: "2", memory: "256Mi" },    { cpu: "4", memory: "512Mi" }],
  ["a cache in memory, up to the limit",    IN_MEMORY,                                { cpu: "100m", memory: "512Mi" }, { cpu: "1", memory: "512Mi" }],
];
for (const [name, attributes, requests, limits] of chosen) {
  test(`pod settings: resources: ${name}`, () => {
    const policy = { ...POD_POLICY, resources: DEFAULTS_OF_CHART };
    assert.deepEqual(parsePodSettings(attributes, [], policy).resources, { requests, limits });
  });
}

test("pod settings: default resources are as Kubernetes has them", () => {
  const given = { requests: { cpu: 0.5, memory: "1Gi" }, limits: { memory: "1Gi", cpu: null } };
  assert.deepEqual(parseDefaultResources(given), {
    requests: { cpu: "0.5", memory: "1Gi" },
    limits: { memory: "1Gi" },
  });
  assert.deepEqual(parseDefaultResources({}), { requests: {}, limits: {} });
  assert.deepEqual(parseDefaultResources(POD_POLICY.resources), POD_POLICY.resources);
});

// prettier-ignore
const wrongDefaults: [value: unknown, message: RegExp][] = [
  [[],                                                             /^mountpointPod.resources must be an object/],
  [{ request: {} },                                                /^mountpointPod.resources.request is not known: use requests and limits/],
  [{ limits: { "ephemeral-storage": "1Gi" } },                     /limits.ephemeral-storage is not known: use cpu and memory/],
  [{ requests: { cpu: "many" } },                                  /requests.cpu is "many": use a quantity/],
  [{ requests: { cpu: "0" } },                                     /requests.cpu is "0": use a quantity above zero/],
  [{ requests: { cpu: true } },                                    /requests.cpu must be a quantity/],
  [{ requests: { cpu: "1e300" } },                                 /requests.cpu is "1e300": no node has so much; use at most 1000000/],
  [{ limits: { memory: 1e300 } },                                  /limits.memory is "1e\+300": no node has so much; use at most 1Ei/],
  [{ requests: { memory: "2Gi" }, limits: { memory: "1Gi" } },     /requests.memory is 2Gi, above the limit of 1Gi/],
];
for (const [value, message] of wrongDefaults) {
  test(`pod settings: default resources ${JSON.stringify(value)} are refused`, () => {
    assert.throws(() => parseDefaultResources(value), { kind: "invalid", message });
  });
}

// prettier-ignore
const smallDefaults: [memory: string | number, engine: Engine, leastMib: number | undefined][] = [
  ["96Mi",      "s3csi",    undefined],
  [100_663_296, "s3csi",    undefined],
  ["95Mi",      "s3csi",    96],
  ["64Mi",      "s3csi",    96],
  ["512m",      "s3csi",    96],
  ["0.0001m",   "s3csi",    96],
  [64,          "s3csi",    96],
  ["64Mi",      "mount-s3", undefined],
  ["512m",      "mount-s3", 16],
];
for (const [memory, engine, leastMib] of smallDefaults) {
  const answer = leastMib === undefined ? "accepted" : "refused";
  test(`pod settings: a default memory limit of ${memory} is ${answer} for ${engine}`, () => {
    const resources = parseDefaultResources({ limits: { memory } });
    const check = () => checkDefaultLimits(resources, engine);
    if (leastMib === undefined) return check();
    const why = `"${memory}": the engine ${engine} needs at least ${leastMib}Mi`;
    const message = `mountpointPod.resources.limits.memory is ${why}`;
    assert.throws(check, { kind: "invalid", message });
  });
}

test("pod settings: volumes are checked for the engine of the controller", () => {
  const attributes = { [MEMORY_LIMIT]: "64Mi" };
  const parse = () => parsePodSettings(attributes, []).resources.limits;
  assert.throws(parse, { kind: "invalid", attribute: MEMORY_LIMIT });
  try {
    checkVolumesFor("mount-s3");
    assert.deepEqual(parse(), { memory: "64Mi" });
  } finally {
    checkVolumesFor("s3csi");
  }
  assert.throws(parse, { kind: "invalid" });
  const policy = { ...POD_POLICY, engine: "mount-s3" } as const;
  assert.deepEqual(parsePodSettings(attributes, [], policy).resources.limits, { memory: "64Mi" });
  const tiny = { [MEMORY_LIMIT]: "512m" };
  assert.throws(() => parsePodSettings(tiny, [], policy), { kind: "invalid" });
});

test("pod settings: a cache in memory does not fit into a default limit of 96Mi", () => {
  const resources = { requests: {}, limits: { memory: "96Mi" } };
  const policy = { ...POD_POLICY, resources };
  assert.throws(() => parsePodSettings(IN_MEMORY, [], policy), {
    attribute: "cacheEmptyDirMedium",
    message: /Medium is "Memory", and the default memory limit is "96Mi": .* at least 97Mi$/,
  });
  parsePodSettings({}, [], policy);
  parsePodSettings({ cache: "emptyDir" }, [], policy);
});

// prettier-ignore
const engineSizes: [attributes: Record<string, string>, options: string[], mib: number][] = [
  [{ cache: "emptyDir" },                                                                    [],                                9728],
  [{},                                                                                       ["cache", "max-cache-size=20000"], 20000],
  [{},                                                                                       ["cache", "max-cache-size=1"],     1],
  [{ cache: "emptyDir", cacheEmptyDirSizeLimit: "16Mi" },                                    [],                                14],
  [{ cache: "emptyDir", cacheEmptyDirSizeLimit: "1Mi" },                                     [],                                1],
  [{ cache: "ephemeral", [CLASS]: "fast", [SIZE]: "100Mi" },                                 [],                                95],
  [{ cache: "emptyDir", cacheEmptyDirMedium: "Memory" },                                     [],                                486],
  [{ cache: "emptyDir", cacheEmptyDirMedium: "Memory", [MEMORY_LIMIT]: "512Mi" },            [],                                256],
  [{ cache: "emptyDir", cacheEmptyDirMedium: "Memory", [MEMORY_LIMIT]: "128Mi" },            [],                                32],
  [{ cache: "emptyDir", cacheEmptyDirMedium: "Memory", [MEMORY_LIMIT]: "8Gi" },              [],                                486],
  [{ cache: "emptyDir", [MEMORY_LIMIT]: "128Mi" },                                           [],                                9728],
];
for (const [attributes, options, mib] of engineSizes) {
  test(`pod settings: an engine keeps ${mib} MiB of ${JSON.stringify([attributes, options])}`, () => {
    const { cache, resources } = parsePodSettings(attributes, options);
    assert(cache !== undefined);
    assert.equal(engineCacheMib(cache, resources), mib);
  });
}

// prettier-ignore
const wrong: [attributes: Record<string, string>, message: RegExp][] = [
  [{ [CPU]: "many" },                                             /RequestsCpu is "many": use a quantity/],
  [{ [MEMORY]: "2Gi", [MEMORY_LIMIT]: "1Gi" },                    /can not request memory 2Gi with a limit of 1Gi/],
  [{ [MEMORY_LIMIT]: "95Mi" },                                    /LimitsMemory is "95Mi": the engine s3csi needs at least 96Mi$/],
  [{ [MEMORY_LIMIT]: "512m" },                                    /LimitsMemory is "512m": the engine s3csi needs at least 96Mi$/],
  [{ [MEMORY_LIMIT]: "0.0001m" },                                 /LimitsMemory is "0.0001m": the engine s3csi needs at least 96Mi$/],
  [{ ...IN_MEMORY, [MEMORY_LIMIT]: "96Mi" },                      /LimitsMemory is "96Mi": .* and a cache in memory needs at least 97Mi$/],
  [{ [MEMORY_LIMIT]: "2Ei" },                                     /LimitsMemory is "2Ei": no node has so much; use at most 1Ei$/],
  [{ [CPU]: "1e300" },                                            /RequestsCpu is "1e300": no node has so much; use at most 1000000$/],
  [{ mountpointPodServiceAccountName: "No Name" },                /ServiceAccountName is "No Name"/],
  [{ "mountpointEnv.LD_PRELOAD": "x" },                           /mountpointEnv.LD_PRELOAD: environment variable not allowed: use one of HTTP_PROXY/],
  [{ cache: "disk" },                                             /cache is "disk": use "emptyDir" or "ephemeral"/],
  [{ cache: "emptyDir", cacheEmptyDirMedium: "HugePages" },       /cacheEmptyDirMedium is "HugePages"/],
  [{ cache: "emptyDir", cacheEmptyDirSizeLimit: "big" },          /cacheEmptyDirSizeLimit is "big"/],
  [{ cache: "emptyDir", cacheEmptyDirSizeLimit: "100k" },         /at least 1Mi/],
  [{ cacheEmptyDirSizeLimit: "1Gi" },                             /cacheEmptyDirSizeLimit is for a cache of kind emptyDir/],
  [{ cache: "emptyDir", [CLASS]: "fast" },                        /cacheEphemeralStorageClassName is for a cache of kind ephemeral/],
  [{ cache: "ephemeral", [SIZE]: "1Gi" },                         /cacheEphemeralStorageClassName is "": name a StorageClass/],
  [{ cache: "ephemeral", [CLASS]: "fast" },                       /cacheEphemeralStorageResourceRequest is ""/],
];
for (const [attributes, message] of wrong) {
  test(`pod settings: ${JSON.stringify(attributes)} is refused`, () => {
    assert.throws(() => parsePodSettings(attributes, []), { kind: "invalid", message });
  });
}
