import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { MOUNTPOINT_NAMESPACE_DEFAULT, mountpointPodNameOf } from "../../src/volume/names.ts";
import { PARAMETERS } from "../controller/known-parameters.ts";
import type { ClassOptions, Users } from "./objects.ts";
import { secretOf } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 60_000 };
const FIELD = "csi.storage.k8s.io/";

let world: ProvisioningWorld;
let users: Users;
before(async () => {
  world = await startWorld();
  ({ users } = world);
  await users.secret("default", "good", secretOf(await world.s3.addAccount("alice")));
  await users.secret("default", "empty", {});
}, TIMEOUT);
after(() => world?.[Symbol.asyncDispose]());

type Use = "provisioner" | "node-publish";
const nameOf = (use: Use) => `${FIELD}${use}-secret-name`;
const namespaceOf = (use: Use) => `${FIELD}${use}-secret-namespace`;
const secret = (use: Use, name: string) => ({ [nameOf(use)]: name, [namespaceOf(use)]: "default" });
const parameter = (key: string, value: string, rule: string) =>
  `StorageClass parameter ${key} is ${JSON.stringify(value)}: ${rule}`;
const SECRETS = (["provisioner", "node-publish"] as const)
  .flatMap((use) => [nameOf(use), namespaceOf(use)])
  .join(", ");
const PREFIX_RULE = "names of letters, digits, dots, underscores and hyphens with a / between them";
const shared = { bucketName: "not-there" };

// prettier-ignore
const refused: [name: string, parameters: Record<string, string>, note: string][] = [
  ["no Secret to mount with",         { ...secret("provisioner", "good"), ...secret("node-publish", "none") }, "the node-publish Secret default/none does not exist"],
  ["an empty one to mount with",      { ...secret("provisioner", "good"), ...secret("node-publish", "empty") }, "the node-publish Secret default/empty has no access_key_id and no secret_access_key"],
  ["an empty one, and no other",      secret("node-publish", "empty"), "the node-publish Secret default/empty has no access_key_id and no secret_access_key"],
  ["a Secret's name alone",           { [nameOf("provisioner")]: "good" }, parameter(nameOf("provisioner"), "good", `${namespaceOf("provisioner")} is missing: both or none`)],
  ["a Secret's namespace alone",      { [namespaceOf("provisioner")]: "default" }, parameter(namespaceOf("provisioner"), "default", `${nameOf("provisioner")} is missing: both or none`)],
  ["a mount Secret's name alone",     { [nameOf("node-publish")]: "good" }, parameter(nameOf("node-publish"), "good", `${namespaceOf("node-publish")} is missing: both or none`)],
  ["its namespace alone",             { [namespaceOf("node-publish")]: "default" }, parameter(namespaceOf("node-publish"), "default", `${nameOf("node-publish")} is missing: both or none`)],
  ["a Secret for another use",        { [`${FIELD}node-stage-secret-name`]: "good" }, parameter(`${FIELD}node-stage-secret-name`, "good", `not known; use ${SECRETS}`)],
  ["an annotation that it lacks",     secret("node-publish", "${pvc.annotations['team']}"), parameter(nameOf("node-publish"), "${pvc.annotations['team']}", "${pvc.annotations['team']} has no value; use ${pv.name}, ${pvc.namespace}, ${pvc.name}, ${pvc.annotations['KEY']} that the claim has")],
  ["secret, and no Secret",           { authenticationSource: "secret" }, `StorageClass parameter authenticationSource is "secret", yet ${nameOf("node-publish")} names no Secret to mount with`],
  ["driver, and a Secret",            { authenticationSource: "driver", ...secret("node-publish", "good") }, `StorageClass parameter authenticationSource is "driver", yet ${nameOf("node-publish")} names a Secret to mount with`],
  ["an unknown source of keys",       { authenticationSource: "pod" }, parameter("authenticationSource", "pod", "use driver or secret")],
  ["an unknown parameter",            { foo: "bar" },                  parameter("foo", "bar", `not known; use ${PARAMETERS}`)],
  ["a misspelt one",                  { bucketnameprefix: "a-" },      parameter("bucketnameprefix", "a-", "not known; write bucketNamePrefix")],
  ["a cpu that is none",              { mountpointContainerResourcesRequestsCpu: "many" }, parameter("mountpointContainerResourcesRequestsCpu", "many", "use a quantity above zero, such as 512Mi, 2Gi or 100m")],
  ["a cpu that no node has",          { mountpointContainerResourcesRequestsCpu: "1e300" }, parameter("mountpointContainerResourcesRequestsCpu", "1e300", "no node has so much; use at most 1000000")],
  ["a memory limit too small",        { mountpointContainerResourcesLimitsMemory: "32Mi" }, parameter("mountpointContainerResourcesLimitsMemory", "32Mi", "the engine s3csi needs at least 96Mi")],
  ["half a byte of memory",           { mountpointContainerResourcesLimitsMemory: "512m" }, parameter("mountpointContainerResourcesLimitsMemory", "512m", "the engine s3csi needs at least 96Mi")],
  ["a cache that is none",            { cache: "disk" },               parameter("cache", "disk", 'use "emptyDir" or "ephemeral"')],
  ["a region that is none",           { region: "eu west" },           parameter("region", "eu west", "letters, digits and hyphens")],
  ["a bad bucketNamePrefix",          { bucketNamePrefix: "Team_" },   parameter("bucketNamePrefix", "Team_", "1 to 27 small letters, digits and hyphens, the first not a hyphen")],
  ["a bucketName that is none",       { bucketName: "a/b" },           parameter("bucketName", "a/b", "not the name of a bucket")],
  ["a bucketName without bucket",     shared,                          parameter("bucketName", "not-there", "there is no such bucket; the driver makes none for prefix volumes")],
  ["a prefix that climbs",            { ...shared, prefix: "../a" },   parameter("prefix", "../a", PREFIX_RULE)],
  ["an unknown onDelete",             { ...shared, onDelete: "purge" }, parameter("onDelete", "purge", "use delete, keepIfNotEmpty or retain")],
];
for (const [index, [name, parameters, note]] of refused.entries()) {
  test(`a class with ${name}: an event says so`, TIMEOUT, () =>
    isRefused(`class-${index}`, { parameters }, {}, note),
  );
}

const selector = { matchLabels: { a: "b" } };
const dataSource = { kind: "PersistentVolumeClaim", name: "other" };
// prettier-ignore
const refusedClaims: [name: string, options: ClassOptions, spec: object, note: string][] = [
  ["block mode",                  {},                                 { volumeMode: "Block" }, "Volume capability not supported: volumeMode Block; S3 volumes are filesystems"],
  ["a selector",                  {},                                 { selector },            "not supported: spec.selector: a selector finds volumes that exist"],
  ["a data source",               {},                                 { dataSource },          "not supported: spec.dataSource: PersistentVolumeClaim other; S3 volumes begin empty"],
  ["a mount option that is none", { mountOptions: ["Read Only"] },    {},                      'mountOptions: "Read Only" is not an option: write key, key=value or key value'],
  ["one with two values",         { mountOptions: ["uid=1", "uid=2"] }, {},                    "mountOptions: uid is given twice: 1, 2"],
  ["a cache beside a cache",      { parameters: { cache: "emptyDir" }, mountOptions: ["cache"] }, {}, parameter("cache", "emptyDir", "mountOptions: cache is given, and the volume's attribute cache too: give one of them")],
  ["a prefix in a prefix",        { parameters: shared, mountOptions: ["prefix=a/"] }, {},     parameter("bucketName", "not-there", `mountOptions: "prefix=a/" can't be used: the volume itself is a prefix`)],
];
for (const [index, [name, options, spec, note]] of refusedClaims.entries()) {
  test(`a claim with ${name}: an event says so`, TIMEOUT, () =>
    isRefused(`claim-${index}`, options, spec, note),
  );
}

test("a claim for the cache of a Mountpoint Pod: an event says so", TIMEOUT, async () => {
  const parameters = {
    cache: "ephemeral",
    cacheEphemeralStorageClassName: "cached",
    cacheEphemeralStorageResourceRequest: "1Gi",
  };
  const name = `${mountpointPodNameOf("uid", "pv")}-cache`;
  const advice = "choose another StorageClass in cacheEphemeralStorageClassName";
  const problem = "a Mountpoint Pod can't have its cache on a volume of this driver";
  const namespace = MOUNTPOINT_NAMESPACE_DEFAULT;
  const note = `claim ${namespace}/${name}: ${problem}; ${advice}`;
  await users.storageClass("cached", { parameters });
  await users.claim(name, "cached", {}, { namespace });
  await isRefusedWith(name, note, namespace);
});

/** The claim stays pending, nothing is made, and it can be deleted. */
async function isRefused(name: string, options: ClassOptions, spec: object, note: string) {
  await users.storageClass(name, options);
  await users.claim(name, name, spec);
  await isRefusedWith(name, note);
}

async function isRefusedWith(name: string, note: string, namespace = "default") {
  const event = await users.ownEvent(name, "ProvisioningFailed");
  assert.equal(event.note, note);
  assert.equal(users.claims.get(`${namespace}/${name}`)?.status?.phase, "Pending");
  assert.deepEqual(await users.buckets(), []);
  await users.deleteClaim(name, namespace);
  await users.claimGone(name, namespace);
}
