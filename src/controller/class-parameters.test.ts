import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { volumeHandleOf, volumeUuidOf } from "../volume/volume-handle.ts";
import { parseClassParameters, placeOf } from "./class-parameters.ts";

const CLAIM = {
  "csi.storage.k8s.io/pvc/name": "data",
  "csi.storage.k8s.io/pvc/namespace": "team",
  "csi.storage.k8s.io/pv/name": "pvc-1",
};
const UUID = volumeUuidOf("pvc-1");
const placeFor = (given: Record<string, string>, name = "pvc-1") =>
  placeOf(name, parseClassParameters({ ...CLAIM, ...given }));

// prettier-ignore
const places: [given: Record<string, string>, bucket: string, prefix: string][] = [
  [{},                                                                  `csi-s3-${UUID}`,   ""],
  [{ bucketNamePrefix: "team-a-" },                                     `team-a-${UUID}`,   ""],
  [{ bucketName: "shared" },                                            "shared",           `${UUID}/`],
  [{ bucketName: "shared", prefix: "k8s" },                             "shared",           `k8s/${UUID}/`],
  [{ bucketName: "shared", prefix: "${pvc.namespace}/${pvc.name}" },    "shared",           `team/data/${UUID}/`],
  [{ bucketName: "shared", prefix: "a/${pv.name}/" },                   "shared",           `a/pvc-1/${UUID}/`],
];
for (const [given, bucket, prefix] of places) {
  test(`${JSON.stringify(given)} puts the volume into ${bucket}/${prefix}`, () => {
    const place = placeFor(given);
    assert.deepEqual({ bucket: place.bucket, prefix: place.prefix }, { bucket, prefix });
  });
}

// prettier-ignore
const wrong: [given: Record<string, string>, message: RegExp][] = [
  [{ foo: "x" },                                          /^StorageClass parameter foo is "x": not known; use authenticationSource, bucketName, /],
  [{ bucketname: "x" },                                   /^StorageClass parameter bucketname is "x": not known; write bucketName$/],
  [{ on_delete: "x" },                                    /^StorageClass parameter on_delete is "x": not known; write onDelete$/],
  [{ "csi.storage.k8s.io/secret-name": "x" },             /secret-name is "x": not known/],
  [{ bucketName: "" },                                    /bucketName is "": not the name of a bucket/],
  [{ bucketName: "a/b" },                                 /bucketName is "a\/b": not the name/],
  [{ prefix: "a" },                                       /prefix is "a": only with bucketName/],
  [{ onDelete: "purge" },                                 /onDelete is "purge": use delete, keepIfNotEmpty or retain$/],
  [{ bucketName: "shared", onDelete: "purge" },           /onDelete is "purge": use delete, keepIfNotEmpty or retain$/],
  [{ bucketName: "shared", bucketNamePrefix: "a" },       /bucketNamePrefix is "a": not with bucketName/],
  [{ bucketNamePrefix: "Team" },                          /bucketNamePrefix is "Team": 1 to 27 small letters/],
  [{ bucketNamePrefix: "a".repeat(28) },                  /1 to 27/],
  [{ region: "eu west" },                                 /region is "eu west": letters, digits/],
  [{ authenticationSource: "pod" },                       /authenticationSource is "pod": use driver or secret/],
  [{ bucketName: "shared", prefix: "${pvc.labels}" },     /\$\{pvc\.labels\} is not known; use \$\{pvc\.name\}, /],
  [{ bucketName: "shared", prefix: "${pvc.name" },        /\$\{pvc\.name is not known/],
  [{ bucketName: "shared", prefix: "/a" },                /prefix is "\/a": names of letters/],
  [{ bucketName: "shared", prefix: "a//b" },              /names of letters/],
  [{ bucketName: "shared", prefix: "../a" },              /names of letters/],
  [{ bucketName: "shared", prefix: "a#delete" },          /names of letters/],
  [{ bucketName: "shared", prefix: "a".repeat(84) },      /prefix is "a+\/": 1 characters too long: .* handle would be shared\/a+\/\S+\/, and CSI allows 128/],
  [{ bucketName: "shared", prefix: "a".repeat(77), onDelete: "delete" }, /prefix is .* 1 char.*#delete, and CSI/],
  [{ bucketName: "b".repeat(63), region: "r".repeat(28) }, /region is "r+": 2 characters too long/],
  [{ bucketName: "b".repeat(91) },                        /bucketName is "b+": 1 characters too long/],
];
for (const [given, message] of wrong) {
  test(`${JSON.stringify(given).slice(0, 80)} is refused with its name, value and rule`, () => {
    assert.throws(() => placeFor(given), { kind: "invalid", message });
  });
}

// prettier-ignore
const choices: [given: Record<string, string>, onDelete: string, handle: string][] = [
  [{},                                                 "keepIfNotEmpty", `csi-s3-${UUID}`],
  [{ onDelete: "delete" },                             "delete",         `csi-s3-${UUID}`],
  [{ onDelete: "retain" },                             "retain",         `csi-s3-${UUID}`],
  [{ bucketName: "shared" },                           "retain",         `shared/${UUID}/`],
  [{ bucketName: "shared", onDelete: "keepIfNotEmpty" }, "keepIfNotEmpty", `shared/${UUID}/`],
  [{ bucketName: "shared", onDelete: "delete" },       "delete",         `shared/${UUID}/#delete`],
];
for (const [given, onDelete, handle] of choices) {
  test(`${JSON.stringify(given)}: onDelete is ${onDelete}, the handle ${handle}`, () => {
    assert.equal(parseClassParameters(given).onDelete, onDelete);
    assert.equal(volumeHandleOf(placeFor(given)), handle);
  });
}

test("a handle of 128 bytes is not too long", () => {
  const place = placeFor({ bucketName: "shared", prefix: "a".repeat(83) });
  assert.equal(volumeHandleOf(place).length, 128);
});

test("a template needs what the provisioner tells", () => {
  const parameters = parseClassParameters({ bucketName: "shared", prefix: "${pvc.name}" });
  assert.throws(() => placeOf("pvc-1", parameters), { message: /--extra-create-metadata/ });
});

const POD_PARAMETERS = {
  mountpointContainerResourcesRequestsCpu: "500m",
  mountpointContainerResourcesRequestsMemory: "256Mi",
  mountpointContainerResourcesLimitsCpu: "2",
  mountpointContainerResourcesLimitsMemory: "1Gi",
  cache: "emptyDir",
  cacheEmptyDirSizeLimit: "5Gi",
  cacheEmptyDirMedium: "",
  mountpointPodServiceAccountName: "reader",
  "mountpointEnv.HTTPS_PROXY": "http://proxy:3128",
};

test("a class sizes and places the Mountpoint Pods of its volumes", () => {
  const given = { ...CLAIM, ...POD_PARAMETERS, bucketName: "shared", region: "eu-west-1" };
  assert.deepEqual(parseClassParameters(given).podAttributes, POD_PARAMETERS);
  const ephemeral = {
    cache: "ephemeral",
    cacheEphemeralStorageClassName: "fast",
    cacheEphemeralStorageResourceRequest: "10Gi",
  };
  assert.deepEqual(parseClassParameters(ephemeral).podAttributes, ephemeral);
  assert.deepEqual(parseClassParameters(CLAIM).podAttributes, {});
});

// prettier-ignore
const wrongPods: [given: Record<string, string>, message: RegExp][] = [
  [{ mountpointContainerResourcesRequestsCpu: "many" },   /^StorageClass parameter mountpointContainerResourcesRequestsCpu is "many": use a quantity/],
  [{ ...POD_PARAMETERS, mountpointContainerResourcesRequestsMemory: "2Gi" }, /^StorageClass parameter mountpointContainerResourcesRequestsMemory is 2Gi: .* with a limit of 1Gi/],
  [{ cache: "disk" },                                     /^StorageClass parameter cache is "disk": use "emptyDir" or "ephemeral"/],
  [{ cacheEmptyDirSizeLimit: "1Gi" },                     /^StorageClass parameter cacheEmptyDirSizeLimit is for a cache of kind emptyDir: set cache to it/],
  [{ cache: "emptyDir", cacheEmptyDirSizeLimit: "0" },    /^StorageClass parameter cacheEmptyDirSizeLimit is "0": use a quantity above zero/],
  [{ cache: "ephemeral" },                                /^StorageClass parameter cacheEphemeralStorageClassName is "": name a StorageClass/],
  [{ mountpointPodServiceAccountName: "No Name" },        /^StorageClass parameter mountpointPodServiceAccountName is "No Name": name a/],
  [{ "mountpointEnv.LD_PRELOAD": "x" },                   /^StorageClass parameter mountpointEnv.LD_PRELOAD: environment variable not allowed/],
  [{ mountpointcontainerresourceslimitsmemory: "1Gi" },   /not known; write mountpointContainerResourcesLimitsMemory$/],
];
for (const [given, message] of wrongPods) {
  test(`a class with ${JSON.stringify(given).slice(0, 80)} is refused before a volume is made`, () => {
    assert.throws(() => parseClassParameters(given), { kind: "invalid", message });
  });
}

interface Names {
  readonly namespace: string;
  readonly pvc: string;
  readonly volume: string;
}

function prefixOf({ namespace, pvc, volume }: Names): string {
  const given = {
    bucketName: "shared",
    prefix: "${pvc.namespace}/${pvc.name}",
    "csi.storage.k8s.io/pvc/name": pvc,
    "csi.storage.k8s.io/pvc/namespace": namespace,
  };
  return placeFor(given, volume).prefix;
}

test("no names let one volume reach into another's", () => {
  const name = fc.stringMatching(/^[a-z0-9.-]{1,12}$/).filter((text) => !/^\.{1,2}$/.test(text));
  const claim = fc.record({ namespace: name, pvc: name, volume: fc.string({ minLength: 1 }) });
  fc.assert(
    fc.property(claim, claim, (one, other) => {
      fc.pre(one.volume !== other.volume);
      assert(!prefixOf(one).startsWith(prefixOf(other)));
    }),
  );
});
