import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../csi/gen/csi_pb.ts";
import { capacityOf, parseCreateRequest } from "./create-request.ts";

type Given = MessageInitShape<typeof CreateVolumeRequestSchema>;

function capability(mode: Mode, mountFlags: string[] = []) {
  return { accessMode: { mode }, accessType: { case: "mount" as const, value: { mountFlags } } };
}
const RWX = capability(Mode.MULTI_NODE_MULTI_WRITER);
const parsed = (given: Given) =>
  parseCreateRequest(
    create(CreateVolumeRequestSchema, { name: "pvc-1", volumeCapabilities: [RWX], ...given }),
  );

for (const mode of [
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
  Mode.MULTI_NODE_READER_ONLY,
  Mode.MULTI_NODE_MULTI_WRITER,
]) {
  test(`access mode ${mode} is offered`, () => {
    assert.equal(parsed({ volumeCapabilities: [capability(mode)] }).name, "pvc-1");
  });
}

const GIB = 1024n ** 3n;
// prettier-ignore
const capacities: [range: { requiredBytes?: bigint; limitBytes?: bigint } | undefined, bytes: bigint][] = [
  [undefined,                               GIB],
  [{ requiredBytes: 5n },                   5n],
  [{ limitBytes: 7n },                      7n],
  [{ requiredBytes: 5n, limitBytes: 7n },   5n],
];
for (const [range, bytes] of capacities) {
  test(`of ${range?.requiredBytes ?? 0} to ${range?.limitBytes ?? 0} bytes it says ${bytes}`, () => {
    const { capacity } = parsed(range === undefined ? {} : { capacityRange: range });
    assert.equal(capacityOf(capacity), bytes);
  });
}

const block = {
  accessMode: { mode: Mode.MULTI_NODE_MULTI_WRITER },
  accessType: { case: "block" as const, value: {} },
};
const shared = { bucketName: "shared" };
// prettier-ignore
const wrong: [name: string, given: Given, message: RegExp][] = [
  ["no name",            { name: "" },                                             /Volume name not provided/],
  ["a long name",        { name: "x".repeat(129) },                                /longer than 128 bytes/],
  ["no capability",      { volumeCapabilities: [] },                               /Volume capabilities not provided/],
  ["no access type",     { volumeCapabilities: [{ accessMode: { mode: Mode.SINGLE_NODE_WRITER } }] }, /no access type/],
  ["no access mode",     { volumeCapabilities: [{ accessType: RWX.accessType }] }, /has no access mode; there are ReadWriteMany, ReadOnlyMany/],
  ["one writer of many", { volumeCapabilities: [RWX, capability(Mode.MULTI_NODE_SINGLE_WRITER)] }, /access mode MULTI_NODE_SINGLE_WRITER/],
  ["a block device",     { volumeCapabilities: [block] },                          /volumeMode Block/],
  ["a snapshot",         { volumeContentSource: { type: { case: "snapshot", value: { snapshotId: "s" } } } }, /begin empty/],
  ["mutable parameters", { mutableParameters: { iops: "9" } },                     /VolumeAttributesClass not supported: iops/],
  ["an unknown one",     { parameters: { foo: "bar" } },                           /StorageClass parameter foo is "bar": not known/],
  ["no range",           { capacityRange: { requiredBytes: 5n, limitBytes: 4n } }, /capacity_range 5 to 4 bytes/],
  ["a mount option that is none", { volumeCapabilities: [capability(Mode.MULTI_NODE_MULTI_WRITER, ["uid=1", "Read Only"])] }, /^mountOptions: "Read Only" is not an option: write key, key=value or key value$/],
  ["two caches",         { parameters: { cache: "emptyDir" }, volumeCapabilities: [capability(Mode.MULTI_NODE_MULTI_WRITER, ["cache=/x"])] }, /^StorageClass parameter cache is "emptyDir": mountOptions: cache is given, and the volume's attribute cache too: give one/],
  ["a cache too large",  { parameters: { cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi" }, volumeCapabilities: [capability(Mode.MULTI_NODE_MULTI_WRITER, ["max-cache-size=2000"])] }, /^StorageClass parameter cache is "emptyDir": mountOptions: "max-cache-size=2000" .* has 1024 MiB/],
  ["two prefixes",       { parameters: shared, volumeCapabilities: [capability(Mode.MULTI_NODE_MULTI_WRITER, ["prefix=a/"])] }, /^StorageClass parameter bucketName is "shared": mountOptions: "prefix=a\/" can't be used/],
];
for (const [name, given, message] of wrong) {
  test(`${name} is refused`, () => {
    assert.throws(() => parsed(given), { kind: "invalid", message });
  });
}

test("an own bucket may be mounted from a prefix on", () => {
  const flags = capability(Mode.MULTI_NODE_MULTI_WRITER, ["prefix=a/"]);
  assert.equal(parsed({ volumeCapabilities: [flags] }).place.prefix, "");
});
