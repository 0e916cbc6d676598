import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import {
  CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../csi/gen/csi_pb.ts";
import { parseCreateRequest } from "./create-request.ts";
import { unusableParameters } from "./unusable-parameters.ts";

type Parameters = Record<string, string>;

function requestWith(parameters: Parameters, mountFlags: string[] = []) {
  const accessMode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
  const accessType = { case: "mount" as const, value: { mountFlags } };
  const volumeCapabilities = [{ accessMode, accessType }];
  return create(CreateVolumeRequestSchema, { name: "pvc-1", volumeCapabilities, parameters });
}

const CPU = "mountpointContainerResourcesRequestsCpu";
const CPU_LIMIT = "mountpointContainerResourcesLimitsCpu";
const EPHEMERAL_SIZE = "cacheEphemeralStorageResourceRequest";
// prettier-ignore
const cases: [given: Parameters, unusable: Record<string, RegExp>, mountOptions?: string[]][] = [
  [{ region: "eu-west-1" },                       {}],
  [{ type: "fast", region: "eu west" },           { type: /type is "fast": not known/, region: /region is "eu west"/ }],
  [{ bucketNamePrefix: "My_" },                   { bucketNamePrefix: /bucketNamePrefix is "My_"/ }],
  [{ prefix: "a", onDelete: "purge" },            { prefix: /prefix is "a": only with bucketName/, onDelete: /onDelete is "purge"/ }],
  [{ bucketName: "a/b", prefix: "c" },            { bucketName: /bucketName is "a\/b"/, prefix: /prefix is "c": only with/ }],
  [{ bucketName: "shared", prefix: "a".repeat(99) }, { prefix: /prefix is "a+\/": 16 characters too long/ }],
  [{ bucketName: "b".repeat(99) },                { bucketName: /bucketName is "b+": 9 characters too long/ }],
  [{ bucketName: "shared" },                      { bucketName: /^StorageClass parameter bucketName is "shared": mountOptions: "prefix=a\/"/ }, ["prefix=a/"]],
  [{ cache: "yes" },                              { cache: /^StorageClass parameter cache is "yes": use/ }],
  [{ cache: "emptyDir" },                         { cache: /^StorageClass parameter cache is "emptyDir": mountOptions: cache is given/ }, ["cache=/x"]],
  [{ cacheEmptyDirSizeLimit: "1Gi" },             { cacheEmptyDirSizeLimit: /is for a cache of kind emptyDir/ }],
  [{ cache: "emptyDir", cacheEmptyDirSizeLimit: "1" }, { cacheEmptyDirSizeLimit: /at least 1Mi/ }],
  [{ cache: "ephemeral", [EPHEMERAL_SIZE]: "1Gi" }, { cache: /cacheEphemeralStorageClassName is ""/, [EPHEMERAL_SIZE]: /of kind ephemeral/ }],
  [{ cache: "ephemeral", cacheEphemeralStorageClassName: "fast" }, { cache: /Request is "": use a quantity/, cacheEphemeralStorageClassName: /of kind/ }],
  [{ [CPU]: "lots" },                             { [CPU]: /RequestsCpu is "lots": use a quantity/ }],
  [{ [CPU]: "2", [CPU_LIMIT]: "1" },              { [CPU]: /RequestsCpu is 2: .* with a limit of 1/ }],
  [{ "mountpointEnv.FOO": "x" },                  { "mountpointEnv.FOO": /not allowed/ }],
  [{ mountpointPodServiceAccountName: "No Name" }, { mountpointPodServiceAccountName: /name a ServiceAccount/ }],
];
for (const [given, unusable, mountOptions] of cases) {
  const options = mountOptions === undefined ? "" : ` and the mount option ${mountOptions[0]}`;
  test(`of ${JSON.stringify(given).slice(0, 90)}${options} the rest is used`, () => {
    const request = requestWith(given, mountOptions);
    const found = unusableParameters(request);
    assert.deepEqual([...found.keys()].toSorted(), Object.keys(unusable).toSorted());
    for (const [key, why] of Object.entries(unusable)) assert.match(found.get(key) ?? "", why);
    const rest = Object.entries(given).filter(([key]) => !found.has(key));
    parseCreateRequest(requestWith(Object.fromEntries(rest), mountOptions));
  });
}

for (const key of ["authenticationSource", "authentication-source", "csiProvisionerSecretName"]) {
  test(`${key} decides whose keys are used: no class is too old for an error`, () => {
    assert.throws(() => unusableParameters(requestWith({ [key]: "x" })), { kind: "invalid" });
  });
}

test("what is no parameter's fault is an error for every class", () => {
  const request = requestWith({ type: "fast" }, ["Read Only"]);
  assert.throws(() => unusableParameters(request), { message: /"Read Only" is not an option/ });
});
