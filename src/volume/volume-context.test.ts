import assert from "node:assert/strict";
import { test } from "node:test";
import { parseVolumeContext } from "./volume-context.ts";

test("a bucket's name is enough", () => {
  const context = parseVolumeContext({ bucketName: "data", "storage.kubernetes.io/x": "y" });
  assert.deepEqual(context, {
    bucketName: "data",
    authenticationSource: "driver",
    prefix: "",
    region: undefined,
  });
});

test("a volume may be a part of its bucket, and in another region", () => {
  const attributes = { bucketName: "data", prefix: "a/b/", region: "eu-west-1" };
  const { prefix, region } = parseVolumeContext(attributes);
  assert.deepEqual({ prefix, region }, { prefix: "a/b/", region: "eu-west-1" });
});

test("the authentication source can be the volume's Secret", () => {
  const context = parseVolumeContext({ bucketName: "data", authenticationSource: "secret" });
  assert.equal(context.authenticationSource, "secret");
});

const wrong: [attributes: Record<string, string>, message: RegExp][] = [
  [{}, /Bucket name not provided: set volumeAttributes\.bucketName/],
  [{ bucketName: "" }, /Bucket name not provided/],
  [{ bucketName: "--debug" }, /bucketName is "--debug".*begins with a letter/],
  [{ bucketName: "a/b" }, /bucketName is "a\/b"/],
  [{ bucketName: "data", prefix: "a" }, /prefix is "a": it ends with \//],
  [{ bucketName: "data", prefix: "/a/" }, /prefix is "\/a\/"/],
  [{ bucketName: "data", region: "eu west" }, /region is "eu west": letters, digits/],
  [{ bucketName: "data", authenticationSource: "" }, /is "": use "driver" or "secret"/],
  [{ bucketName: "data", authenticationSource: "Secret" }, /is "Secret": use "driver" or "secret"/],
  [
    { bucketName: "data", authenticationSource: " secret" },
    /is " secret": use "driver" or "secret"/,
  ],
  [
    { bucketName: "data", authenticationsource: "secret" },
    /authenticationsource is not known: write authenticationSource/,
  ],
  [{ bucketName: "data", "authentication-source": "secret" }, /write authenticationSource/],
  [{ bucket_name: "data" }, /volumeAttributes\.bucket_name is not known: write bucketName/],
  [{ bucketName: "data", BucketName: "other" }, /BucketName is not known: write bucketName/],
  [{ bucketName: "data", authenticationSource: "pod" }, /is "pod": use "driver" or "secret"/],
];
for (const [attributes, message] of wrong) {
  test(`${JSON.stringify(attributes)} is refused with its field, value and rule`, () => {
    assert.throws(() => parseVolumeContext(attributes), { kind: "invalid", message });
  });
}

test("a Secret that a dynamic volume brings is meant; a static one says whose keys itself", () => {
  const dynamic = { bucketName: "data", dynamicProvisioning: "true" };
  const unheard = { kind: "invalid", message: /has a nodePublishSecretRef: .*name both or none/ };
  assert.throws(() => parseVolumeContext(dynamic, true), unheard);
  const driver = { ...dynamic, authenticationSource: "driver" };
  assert.throws(() => parseVolumeContext(driver, true), unheard);
  const secret = { ...dynamic, authenticationSource: "secret" };
  assert.equal(parseVolumeContext(secret, true).authenticationSource, "secret");
  assert.equal(parseVolumeContext(dynamic, false).authenticationSource, "driver");
  assert.equal(parseVolumeContext({ bucketName: "data" }, true).authenticationSource, "driver");
});

test("a volume of the reference driver is mounted with the driver's keys, as it was there", () => {
  const handle = "csi-s3-0f0e0d0c-0b0a-4908-8706-050403020100";
  const attributes = { bucketName: handle, dynamicProvisioning: "true" };
  for (const source of [{}, { authenticationSource: "driver" }]) {
    const context = parseVolumeContext({ ...attributes, ...source }, true, handle);
    assert.equal(context.authenticationSource, "driver");
  }
});
