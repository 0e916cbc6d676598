import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { isHandleOf, parseVolumeHandle, volumeHandleOf, volumeUuidOf } from "./volume-handle.ts";
import type { VolumePlace } from "./volume-handle.ts";

const UUID = volumeUuidOf("pvc-1");
const REFERENCE = "0f0e0d0c-0b0a-4908-8706-050403020100";
const whole: VolumePlace = {
  bucket: `csi-s3-${UUID}`,
  region: undefined,
  prefix: "",
  onDelete: "keepIfNotEmpty",
};
const part: VolumePlace = {
  ...whole,
  bucket: "shared",
  prefix: `team/${UUID}/`,
  onDelete: "retain",
};

// prettier-ignore
const handles: [name: string, place: VolumePlace, handle: string][] = [
  ["a bucket of its own is its own handle",  whole,                                   `csi-s3-${UUID}`],
  ["a region of its own is told",            { ...whole, region: "eu-west-1" },       `csi-s3-${UUID}@eu-west-1`],
  ["a prefix is told",                       part,                                    `shared/team/${UUID}/`],
  ["and when it is to be emptied",           { ...part, onDelete: "delete" },         `shared/team/${UUID}/#delete`],
  ["with all of it",                         { ...part, region: "r-1", onDelete: "delete" }, `shared@r-1/team/${UUID}/#delete`],
];
for (const [name, place, handle] of handles) {
  test(name, () => {
    assert.equal(volumeHandleOf(place), handle);
    assert.deepEqual(parseVolumeHandle(handle), place);
  });
}

for (const foreign of [
  "",
  "my-bucket",
  "letters-volume",
  "shared/team/",
  "shared/#delete",
  `csi-s3-${UUID}#delete`,
  `shared/team/${UUID}/more/`,
  `shared/team/x${UUID}/`,
  `shared/team/${UUID}/#delete#delete`,
  `csi-s3-${UUID}/x`,
  `team-${REFERENCE}`, // the reference driver has one prefix for all its buckets
  `csi-s3-${REFERENCE}@eu-west-1`,
  `csi-s3-${REFERENCE}#delete`,
  `shared/${REFERENCE}/`,
  `csi-s3-${REFERENCE.replace("-4", "-1")}`,
]) {
  test(`${JSON.stringify(foreign)} is not ours: nothing is ever deleted for it`, () => {
    assert.equal(parseVolumeHandle(foreign), undefined);
  });
}

test("a bucket of the reference driver is a volume, of a UUID that follows from no name", () => {
  const bucket = `csi-s3-${REFERENCE}`;
  assert.deepEqual(parseVolumeHandle(bucket), { ...whole, bucket });
  assert.equal(isHandleOf(bucket, "pvc-1"), false);
});

const OTHER = volumeUuidOf("pvc-2");
// prettier-ignore
const claimed: [handle: string, isOwn: boolean][] = [
  [`csi-s3-${UUID}`,                        true],
  [`any-${UUID}@eu-west-1`,                 true],
  [`shared/team/${UUID}/#delete`,           true],
  [`shared/${UUID}/`,                       true],
  [`csi-s3-${OTHER}`,                       false],
  [`csi-s3-${UUID}-${OTHER}`,               false],
  [`shared/${OTHER}/`,                      false],
  [`shared/${UUID}/${OTHER}/#delete`,       false],
  [`csi-s3-${UUID}/${OTHER}/#delete`,       false],
  [`shared/x${UUID}/`,                      false],
  ["",                                      false],
  ["my-bucket",                             false],
];
for (const [handle, isOwn] of claimed) {
  test(`${handle} is ${isOwn ? "" : "not "}pvc-1's`, () => {
    assert.equal(isHandleOf(handle, "pvc-1"), isOwn);
  });
}

test("the UUID is a version 5, the same for the same name, and no other's", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (one, other) => {
      assert.match(
        volumeUuidOf(one),
        /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
      assert.equal(volumeUuidOf(one) === volumeUuidOf(other), one === other);
    }),
  );
});

test("a handle comes back as the place it was made for", () => {
  const name = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,20}$/);
  const place = fc.record({
    region: fc.option(name, { nil: undefined }),
    parts: fc.array(fc.stringMatching(/^[A-Za-z0-9_-]{1,10}$/), { maxLength: 4 }),
    bucket: name,
    volume: fc.string(),
    emptied: fc.boolean(),
  });
  fc.assert(
    fc.property(place, ({ region, parts, bucket, volume, emptied }) => {
      const prefix = `${[...parts, volumeUuidOf(volume)].join("/")}/`;
      const made: VolumePlace = { bucket, region, prefix, onDelete: emptied ? "delete" : "retain" };
      assert.deepEqual(parseVolumeHandle(volumeHandleOf(made)), made);
    }),
  );
});
