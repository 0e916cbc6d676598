import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../base/flags.ts";
import { checkServer } from "./kube-flags.ts";
import { FLAGS, run } from "./controller.ts";

const read = (...argv: string[]) => readConfig(FLAGS, argv, {});

const LONG = "a".repeat(63);
const PREFIX = `${LONG}.${LONG}.${LONG}.${"a".repeat(61)}`; // 253 characters

// prettier-ignore
const labels: [text: string, want: Record<string, string>][] = [
  ["",                                   {}],
  ["team=red,",                          { team: "red" }],
  ["team=,b=",                           { team: "", b: "" }],
  ["example.com/team=My_Team.v1-2",      { "example.com/team": "My_Team.v1-2" }],
  [`${PREFIX}/${LONG}=${LONG}`,          { [`${PREFIX}/${LONG}`]: LONG }],
];
for (const [text, want] of labels) {
  test(`the labels ${text.slice(0, 40)} are accepted`, () => {
    assert.deepEqual(read(`--mountpoint-labels=${text}`).mountpointLabels, want);
  });
}

test("annotations may have any text as value, and capital letters in a key's prefix", () => {
  const given = { "Example.COM/List": 'a,b="c" \n', team: "", [`${PREFIX}/${LONG}`]: "my team" };
  const flag = `--mountpoint-annotations=${JSON.stringify(given)}`;
  assert.deepEqual(read(flag).mountpointAnnotations, given);
});

test("legal names of objects are accepted, and empty ones where they are optional", () => {
  const config = read(
    "--mountpoint-priority-class=a.b-c.d1",
    `--headroom-priority-class=${PREFIX}`,
    "--mountpoint-image-pull-secrets=one,two.three,",
    "--mountpoint-ca-config-map=",
  );
  assert.deepEqual(config.mountpointImagePullSecrets, ["one", "two.three"]);
});

const ANNOTATIONS = "--mountpoint-annotations";
// prettier-ignore
const wrong: [flag: string, value: string, says: RegExp][] = [
  ["--mountpoint-labels",  "team=my team",            /^--mountpoint-labels \(S3CSI_MOUNTPOINT_LABELS\): "team=my team": label team is "my team": a value is empty, or/],
  ["--mountpoint-labels",  "team=a=b",                /label team is "a=b": a value is/],
  ["--mountpoint-labels",  "team=-a",                 /label team is "-a"/],
  ["--mountpoint-labels",  `team=${LONG}a`,           /label team is "a{64}"/],
  ["--mountpoint-labels",  "my team=a",               /label key "my team": a key is at most 63 letters.*such as example\.com\/team/],
  ["--mountpoint-labels",  "=a",                      /label key ""/],
  ["--mountpoint-labels",  "/team=a",                 /label key "\/team"/],
  ["--mountpoint-labels",  "a/b/c=a",                 /label key "a\/b\/c"/],
  ["--mountpoint-labels",  "Example.com/team=a",      /label key "Example.com\/team"/],
  ["--mountpoint-labels",  `${PREFIX}a/team=a`,       /label key "a/],
  [ANNOTATIONS,            '{"bad key":"a"}',         /S3CSI_MOUNTPOINT_ANNOTATIONS\).*annotation key "bad key": a key is/],
  [ANNOTATIONS,            '{"a/b/c":"a"}',           /annotation key "a\/b\/c"/],
  [ANNOTATIONS,            '{"s3.csi.scality.com/mount-id":"a"}', /"s3\.csi\.scality\.com\/mount-id": the prefix s3\.csi\.scality\.com\/ is the driver's own/],
  [ANNOTATIONS,            '{"team":7}',              /must be an object of texts/],
  [ANNOTATIONS,            "{",                       /JSON/],
  ["--mountpoint-priority-class",            "Bad Name",  /\(S3CSI_MOUNTPOINT_PRIORITY_CLASS\): "Bad Name": must be at most 253 lower-case letters/],
  ["--mountpoint-preempting-priority-class", "a..b",      /"a\.\.b": must be/],
  ["--headroom-priority-class",              "-a",        /"-a": must be/],
  ["--mountpoint-image-pull-secrets",        "good,Bad",  /"good,Bad": each name must be/],
  ["--mountpoint-ca-config-map",             "my ca",     /"my ca": must be/],
  ["--mountpoint-image",                     "my image",  /"my image": must be an image such as/],
  ["--headroom-image",                       "",          /"": must be an image/],
  ["--mount-s3-image",                       "a b:1",     /"a b:1": must be an image/],
  ["--mountpoint-namespace",                 "a.b",       /"a\.b": must be at most 63 lower-case/],
];
for (const [flag, value, says] of wrong) {
  test(`${flag}=${value.slice(0, 40)} is refused`, () => {
    assert.throws(() => read(`${flag}=${value}`), { kind: "invalid", message: says });
  });
}

for (const url of [
  "",
  "http://s3",
  "https://s3.example-1.com:65535/",
  "http://[::1]:8000",
  "http://[2001:db8::1]",
  "http://127.0.0.1:1",
  "http://my_server",
]) {
  test(`the endpoint "${url}" is accepted`, () => checkServer({ AWS_ENDPOINT_URL: url }));
}

// prettier-ignore
const wrongServers: [env: Record<string, string>, says: RegExp][] = [
  [{ AWS_ENDPOINT_URL: "http://user:pw@host" }, /^AWS_ENDPOINT_URL is "http:\/\/\*\*\*@host": must not hold credentials.*s3\.endpointUrl/],
  [{ AWS_ENDPOINT_URL: "http://us@er:p@host" }, /^AWS_ENDPOINT_URL is "http:\/\/\*\*\*@host": must not/],
  [{ AWS_ENDPOINT_URL: "http://us:p/w@host" },  /"http:\/\/\*\*\*@host": must be/],
  [{ AWS_ENDPOINT_URL: "http://host:99999" },   /"http:\/\/host:99999": must be http:\/\/ or https:\/\/ with a host and.* 1 to 65535/],
  [{ AWS_ENDPOINT_URL: "http://host:0" },       /"http:\/\/host:0": must be/],
  [{ AWS_ENDPOINT_URL: "http://a b" },          /"http:\/\/a b": must be/],
  [{ AWS_ENDPOINT_URL: "host:8000" },           /"host:8000": must be/],
  [{ AWS_ENDPOINT_URL: "http:host" },           /"http:host": must be/],
  [{ AWS_ENDPOINT_URL: "ftp://host" },          /"ftp:\/\/host": must be/],
  [{ AWS_REGION: "us east" },                   /^AWS_REGION is "us east": must be at most 63 letters, digits and '-'.*s3\.region/],
  [{ AWS_REGION: "us/east" },                   /"us\/east"/],
];
for (const [env, says] of wrongServers) {
  test(`${JSON.stringify(env)} is refused`, () => {
    assert.throws(() => checkServer(env), { kind: "invalid", message: says });
  });
}

for (const env of [{ AWS_ENDPOINT_URL: "http://h:99999" }, { AWS_REGION: "us east" }]) {
  test(`the controller does not start with ${JSON.stringify(env)}`, async () => {
    const alone = ["--reconcile=false", "--provision=false", "--log-level=error"];
    await assert.rejects(run(alone, env), { kind: "invalid", message: /^AWS_/ });
  });
}
