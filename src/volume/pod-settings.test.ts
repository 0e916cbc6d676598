import assert from "node:assert/strict";
import { test } from "node:test";
import { parsePodSettings } from "./pod-settings.ts";
import type { PodSettings } from "./pod-settings.ts";

const DEFAULTS: PodSettings = {
  cache: undefined,
  requests: { cpu: "10m", memory: "64Mi" },
  limits: {},
  serviceAccountName: undefined,
  env: {},
};
const CPU = "mountpointContainerResourcesRequestsCpu";
const MEMORY = "mountpointContainerResourcesRequestsMemory";
const MEMORY_LIMIT = "mountpointContainerResourcesLimitsMemory";
const CLASS = "cacheEphemeralStorageClassName";
const SIZE = "cacheEphemeralStorageResourceRequest";

// prettier-ignore
const cases: [name: string, attributes: Record<string, string>, options: string[], want: Partial<PodSettings>][] = [
  ["nothing asked",                     { bucketName: "b" },                                          [],                      {}],
  ["requests",                          { [CPU]: "1", [MEMORY]: "1Gi" },                              [],                      { requests: { cpu: "1", memory: "1Gi" } }],
  ["a limit is the request too",        { [MEMORY_LIMIT]: "32Mi" },                                   [],                      { requests: { cpu: "10m" }, limits: { memory: "32Mi" } }],
  ["a limit and a request",             { [MEMORY_LIMIT]: "2Gi", [MEMORY]: "1Gi" },                   [],                      { requests: { cpu: "10m", memory: "1Gi" }, limits: { memory: "2Gi" } }],
  ["a service account",                 { mountpointPodServiceAccountName: "s3-reader" },             [],                      { serviceAccountName: "s3-reader" }],
  ["proxies",                           { "mountpointEnv.HTTPS_PROXY": "http://p:1", "mountpointEnv.NO_PROXY": ".local" }, [], { env: { HTTPS_PROXY: "http://p:1", NO_PROXY: ".local" } }],
  ["a cache on the node's disk",        { cache: "emptyDir" },                                        [],                      { cache: { kind: "emptyDir" } }],
  ["one with a limit, in memory",       { cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi", cacheEmptyDirMedium: "Memory" }, [], { cache: { kind: "emptyDir", sizeLimit: "1Gi", medium: "Memory" } }],
  ["an empty medium is none",           { cache: "emptyDir", cacheEmptyDirMedium: "" },               [],                      { cache: { kind: "emptyDir" } }],
  ["a cache on a volume of its own",    { cache: "ephemeral", [CLASS]: "fast", [SIZE]: "10Gi" },      [],                      { cache: { kind: "ephemeral", storageClassName: "fast", size: "10Gi" } }],
  ["a cache by mount option",           {},                                                           ["uid=1", "cache /tmp"], { cache: { kind: "emptyDir" } }],
  ["another option with cache in it",   {},                                                           ["max-cache-size=1"],    {}],
];
for (const [name, attributes, options, want] of cases) {
  test(`pod settings: ${name}`, () => {
    assert.deepEqual(parsePodSettings(attributes, options), { ...DEFAULTS, ...want });
  });
}

// prettier-ignore
const wrong: [attributes: Record<string, string>, message: RegExp][] = [
  [{ [CPU]: "many" },                                             /RequestsCpu is "many": use a quantity/],
  [{ [MEMORY]: "2Gi", [MEMORY_LIMIT]: "1Gi" },                    /can not request memory 2Gi with a limit of 1Gi/],
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
