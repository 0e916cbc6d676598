import assert from "node:assert/strict";
import { test } from "node:test";
import { mountAt, parseMountInfo, readMounts } from "./mount-info.ts";

const TEXT = `
36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 35 0:58 / /var/lib/with\\040space ro,nosuid - fuse.s3csi s3csi:a\\134b ro,user_id=0
38 35 0:59 / /mnt2 rw shared:4 master:2 - tmpfs tmpfs rw
`;

test("fields are found with and without optional fields", () => {
  assert.deepEqual(parseMountInfo(TEXT), [
    { device: "98:0", mountPoint: "/mnt2", type: "ext3", source: "/dev/root", readOnly: false },
    {
      device: "0:58",
      mountPoint: "/var/lib/with space",
      type: "fuse.s3csi",
      source: "s3csi:a\\b",
      readOnly: true,
    },
    { device: "0:59", mountPoint: "/mnt2", type: "tmpfs", source: "tmpfs", readOnly: false },
  ]);
});

test("the last mount at a directory is the one on top", () => {
  assert.equal(mountAt(parseMountInfo(TEXT), "/mnt2")?.type, "tmpfs");
  assert.equal(mountAt(parseMountInfo(TEXT), "/mnt3"), undefined);
});

test("the real file is understood: there is a root", () => {
  assert.notEqual(mountAt(readMounts(), "/"), undefined);
});
