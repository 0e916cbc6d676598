import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../src/base/flags.ts";
import { FLAGS } from "../../src/roles/controller.ts";
import { checkServer } from "../../src/roles/kube-flags.ts";
import { containersIn, render } from "./render.ts";

const LONG = "a".repeat(63);
const PREFIX = `${LONG}.${LONG}.${LONG}.${"a".repeat(61)}`; // 253 characters
const ENDPOINT = "s3.endpointUrl";
const LABELS = "mountpointPod.podLabels";
const ANNOTATIONS = "mountpointPod.annotations";
const SIDECAR_IMAGE = "sidecars.csiProvisioner.image";

// prettier-ignore
const wrong: [name: string, value: unknown, says: RegExp][] = [
  [LABELS,                             { team: "my team" },          /mountpointPod\/podLabels\/team.*'my team' does not match/s],
  [LABELS,                             { team: "a=b" },              /podLabels\/team/],
  [LABELS,                             { team: "a," },               /podLabels\/team/],
  [LABELS,                             { team: `${LONG}a` },         /podLabels\/team/],
  [LABELS,                             { "bad key": "a" },           /mountpointPod\/podLabels.*'bad key'/s],
  [LABELS,                             { "Example.com/team": "a" },  /podLabels.*'Example\.com\/team'/s],
  [LABELS,                             { "a/b/c": "a" },             /podLabels.*'a\/b\/c'/s],
  [LABELS,                             { [`${PREFIX}a/team`]: "a" }, /podLabels/],
  [ANNOTATIONS,                        { "bad key": "a" },           /mountpointPod\/annotations.*'bad key'/s],
  [ANNOTATIONS,                        { "/team": "a" },             /annotations.*'\/team'/s],
  [ANNOTATIONS,                        { [`${LONG}a`]: "a" },        /annotations/],
  ["s3.region",                        "us east",                    /s3\/region.*'us east' does not match/s],
  ["s3.region",                        "",                           /s3\/region/],
  ["s3.region",                        "us/east",                    /s3\/region/],
  [ENDPOINT,                           "http://user:pw@host",        /s3\/endpointUrl.*does not match/s],
  [ENDPOINT,                           "http://user@host",           /s3\/endpointUrl/],
  [ENDPOINT,                           "http://host:99999",          /s3\/endpointUrl/],
  [ENDPOINT,                           "http://host:65536",          /s3\/endpointUrl/],
  [ENDPOINT,                           "http://host:0",              /s3\/endpointUrl/],
  [ENDPOINT,                           "http://host:s3",             /s3\/endpointUrl/],
  [ENDPOINT,                           "http://::1",                 /s3\/endpointUrl/],
  [ENDPOINT,                           "http://host?a=b",            /s3\/endpointUrl/],
  [ENDPOINT,                           "http://host/path",           /s3\/endpointUrl/],
  ["node.topologyLabels",              ["a b"],                      /node\/topologyLabels\/0.*'a b'/s],
  ["node.topologyLabels",              ["zone", "a,b"],              /node\/topologyLabels\/1/],
  ["mountpointPod.priorityClassName",  "Bad Name",                   /priorityClassName.*'Bad Name' does not match/s],
  ["mountpointPod.priorityClassName",  "",                           /priorityClassName/],
  ["mountpointPod.priorityClassName",  "a".repeat(254),              /priorityClassName/],
  ["mountpointPod.preemptingPriorityClassName", "-a",                /preemptingPriorityClassName/],
  ["mountpointPod.headroomPriorityClassName",   "a..b",              /headroomPriorityClassName/],
  ["imagePullSecrets",                 ["good", "Bad"],              /imagePullSecrets\/1/],
  ["s3CredentialSecret.name",          "my keys",                    /s3CredentialSecret\/name/],
  ["s3CredentialSecret.accessKeyId",   "access key",                 /s3CredentialSecret\/accessKeyId/],
  ["tls.caCertConfigMap",              "my_ca",                      /tls\/caCertConfigMap/],
  ["storageClass.name",                "My class",                   /storageClass\/name/],
  ["controller.serviceAccount.name",   "My account",                 /controller\/serviceAccount\/name/],
  ["node.serviceAccount.name",         "my_account",                 /node\/serviceAccount\/name/],
  ["node.serviceAccount.annotations",  { "bad key": "a" },           /serviceAccount\/annotations/],
  ["image.repository",                 "my image",                   /image\/repository/],
  ["image.tag",                        "my tag",                     /image\/tag/],
  ["mountpointPod.headroomImage.tag",  "",                           /headroomImage\/tag/],
  ["mountpointPod.mountS3.image.repository", "my image",             /mountS3\/image\/repository/],
  [`${SIDECAR_IMAGE}.repository`,      "",                           /csiProvisioner\/image\/repository/],
  ["nameOverride",                     "my name",                    /nameOverride/],
  ["fullnameOverride",                 "My-name",                    /fullnameOverride/],
];
for (const [name, value, says] of wrong) {
  test(`${name} ${JSON.stringify(value).slice(0, 60)} is refused`, async () => {
    await assert.rejects(render({ [name]: value }), says);
  });
}

const DIGEST = `sha256:${"0".repeat(64)}`;
// prettier-ignore
const legal: [name: string, value: unknown][] = [
  [LABELS,                             {}],
  [LABELS,                             { "example.com/team": "My_Team.v1", empty: "", [`${PREFIX}/${LONG}`]: LONG }],
  [ANNOTATIONS,                        { "Example.COM/Text": "any text, {{ of }} ${all} kinds", [`${PREFIX}/${LONG}`]: "" }],
  ["s3.region",                        "eu-west-1"],
  ["s3.region",                        "RegionOne"],
  [ENDPOINT,                           "http://s3"],
  [ENDPOINT,                           "https://s3.my-company.net:65535/"],
  [ENDPOINT,                           "http://10.0.0.1:1"],
  [ENDPOINT,                           "http://my_server:8000"],
  [ENDPOINT,                           "http://bücher.test:8000"],
  [ENDPOINT,                           "http://[::1]"],
  [ENDPOINT,                           "https://[2001:db8::1]:8443/"],
  [ENDPOINT,                           "https://[::ffff:10.0.0.1]:8443"],
  ["node.topologyLabels",              ["topology.kubernetes.io/zone", "Rack_1"]],
  ["mountpointPod.priorityClassName",  "system-node-critical"],
  ["mountpointPod.priorityClassName",  PREFIX],
  ["imagePullSecrets",                 ["one", "two.three"]],
  ["s3CredentialSecret.accessKeyId",   "AWS_ACCESS.key-id"],
  ["tls.caCertConfigMap",              ""],
  ["tls.caCertConfigMap",              "ca.my-company.net"],
  ["storageClass",                     { create: true, name: "s3.fast", parameters: { "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}" } }],
  ["node.serviceAccount.annotations",  { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x" }],
  ["image.repository",                 "registry.my-company.net:5000/Team/s3csi"],
  ["image.tag",                        ""],
  ["image.tag",                        `v1.0_a@${DIGEST}`],
  ["image",                            { repository: "ghcr.io/s3csi/s3csi@sha256", tag: DIGEST.slice(7) }],
  ["nameOverride",                     ""],
  ["nameOverride",                     "s3-"],
  ["fullnameOverride",                 "my-s3"],
];
for (const [name, value] of legal) {
  test(`${name} ${JSON.stringify(value).slice(0, 60)} is accepted by chart and controller`, async () => {
    const [container] = containersIn(await render({ [name]: value }));
    assert.equal(typeof readConfig(FLAGS, container?.args?.slice(1) ?? [], {}), "object");
    const variables = container?.env?.map((one): [string, string] => [one.name, one.value ?? ""]);
    checkServer(Object.fromEntries(variables ?? []));
  });
}

test("labels and annotations reach the controller unchanged", async () => {
  const labels = { "example.com/team": "My_Team.v1", empty: "" };
  const annotations = { "Example.COM/Text": 'a,b="c"' };
  const objects = await render({ [LABELS]: labels, [ANNOTATIONS]: annotations });
  const config = readConfig(FLAGS, containersIn(objects)[0]?.args?.slice(1) ?? [], {});
  assert.deepEqual(config.mountpointLabels, labels);
  assert.deepEqual(config.mountpointAnnotations, annotations);
});
