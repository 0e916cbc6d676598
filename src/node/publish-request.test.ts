import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import {
  NodePublishVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../csi/gen/csi_pb.ts";
import { parsePublishRequest, parseTarget } from "./publish-request.ts";

const KUBELET = "/var/lib/kubelet";
const TARGET = `${KUBELET}/pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount`;

type Init = Extract<MessageInitShape<typeof NodePublishVolumeRequestSchema>, { $typeName?: never }>;

function capability(mode: Mode, mountFlags: string[] = []): Init["volumeCapability"] {
  return { accessMode: { mode }, accessType: { case: "mount", value: { mountFlags } } };
}

const GOOD: Init = {
  volumeId: "vol-1",
  targetPath: TARGET,
  volumeCapability: capability(Mode.MULTI_NODE_MULTI_WRITER, ["allow-delete"]),
  volumeContext: { bucketName: "bucket-1" },
};

function parseWith(change: Init) {
  return parsePublishRequest(
    create(NodePublishVolumeRequestSchema, { ...GOOD, ...change }),
    KUBELET,
  );
}

function failsWith(kind: string, says: string | RegExp) {
  return (error: unknown) => {
    assert(error instanceof Failure);
    assert.equal(error.kind, kind);
    if (typeof says === "string") assert.equal(error.message, says);
    else assert.match(error.message, says);
    return true;
  };
}

test("a good request is taken apart", () => {
  const secrets = { access_key_id: "a" };
  const context = { bucketName: "bucket-1", "csi.storage.k8s.io/pod.uid": "uid-1" };
  assert.deepEqual(parseWith({ secrets, volumeContext: context }), {
    volumeId: "vol-1",
    target: { path: TARGET, podUid: "uid-1", pvName: "pv-1" },
    workloadUid: "uid-1",
    mountOptions: ["allow-delete"],
    readOnly: false,
    isReadOnlyVolume: false,
    isSingle: false,
    context: {
      bucketName: "bucket-1",
      authenticationSource: "driver",
      prefix: "",
      region: undefined,
    },
    secrets,
  });
});

test("read-only is what the pod, the volume or its access mode says", () => {
  const ofPod = parseWith({ readonly: true });
  assert.deepEqual([ofPod.readOnly, ofPod.isReadOnlyVolume], [true, false]);
  for (const mode of [Mode.MULTI_NODE_READER_ONLY, Mode.SINGLE_NODE_READER_ONLY]) {
    const ofAll = parseWith({ volumeCapability: capability(mode) });
    assert.deepEqual([ofAll.readOnly, ofAll.isReadOnlyVolume], [true, true]);
  }
  assert.equal(parseWith({}).readOnly, false);
});

// prettier-ignore
const bad: [name: string, change: Init, says: string | RegExp][] = [
  ["no volume id",       { volumeId: "" },                   "Volume ID not provided"],
  ["no target",          { targetPath: "" },                 "Target path not provided"],
  ["a foreign target",   { targetPath: "/etc" },             /^Target path "\/etc" is not a pod's volume below \/var\/lib\/kubelet\/pods\/$/],
  ["no capability",      { volumeCapability: undefined }, "Volume capability not provided"],
  ["a block volume",     { volumeCapability: { accessMode: { mode: Mode.MULTI_NODE_MULTI_WRITER }, accessType: { case: "block", value: {} } } }, "Volume capability not supported: volumeMode Block"],
  ["no access mode",     { volumeCapability: { accessType: { case: "mount", value: {} } } }, /access mode UNKNOWN; use ReadWriteMany, ReadOnlyMany, ReadWriteOnce or ReadWriteOncePod$/],
  ["one writer of many", { volumeCapability: capability(Mode.MULTI_NODE_SINGLE_WRITER) }, /access mode MULTI_NODE_SINGLE_WRITER;/],
  ["an unknown mode",    { volumeCapability: capability(99 as Mode) }, /access mode 99;/],
  ["another pod's uid",  { volumeContext: { bucketName: "b-1", "csi.storage.k8s.io/pod.uid": "uid-2" } }, "target_path is of pod uid-1, not of uid-2"],
  ["no bucket",          { volumeContext: {} },              /^Bucket name not provided/],
  ["a bucket like an option", { volumeContext: { bucketName: "--debug" } }, /bucketName is "--debug"/],
  ["a Secret beside the driver's keys", { volumeContext: { bucketName: "b-1", dynamicProvisioning: "true", authenticationSource: "driver" }, secrets: { access_key_id: "a" } }, /^volumeAttributes\.authenticationSource is "driver", yet the volume has a nodePublishSecretRef: its StorageClass names csi\.storage\.k8s\.io\/node-publish-secret-name without csi\.storage\.k8s\.io\/provisioner-secret-name; name both or none, and make the claim anew$/],
  ["a Secret that nobody told of", { volumeContext: { bucketName: "b-1", dynamicProvisioning: "true" }, secrets: { access_key_id: "a" } }, /nodePublishSecretRef/],
  ["an unknown source of keys", { volumeContext: { bucketName: "b-1", authenticationSource: "pod" } }, /authenticationSource is "pod": use "driver" or "secret"/],
];
for (const [name, change, says] of bad) {
  test(`${name} is refused in words`, () => {
    assert.throws(() => parseWith(change), failsWith("invalid", says));
  });
}

test("a dynamic volume has a Secret where it says so, and the driver's keys where it has none", () => {
  const dynamic = { bucketName: "b-1", dynamicProvisioning: "true" };
  const own = { ...dynamic, authenticationSource: "secret" };
  const secrets = { access_key_id: "a" };
  assert.deepEqual(parseWith({ volumeContext: own, secrets }).secrets, secrets);
  assert.equal(parseWith({ volumeContext: dynamic }).context.authenticationSource, "driver");
});

// prettier-ignore
const outside = [
  "/", "//", "relative/pods/u/volumes/kubernetes.io~csi/pv/mount",
  `${KUBELET}/pods/../volumes/kubernetes.io~csi/pv/mount`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi/../mount`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi/./mount`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi//mount`,
  `${KUBELET}/pods//volumes/kubernetes.io~csi/pv/mount`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi/pv/mount/`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi/pv/mount/..`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi/pv/other`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~nfs/pv/mount`,
  `${KUBELET}/pods/u/plugins/kubernetes.io~csi/pv/mount`,
  `${KUBELET}/pods/u/volumes/kubernetes.io~csi/pv\0/mount`,
  `${KUBELET}/plugins/u/volumes/kubernetes.io~csi/pv/mount`,
  `${KUBELET}-other/pods/u/volumes/kubernetes.io~csi/pv/mount`,
  `/x${KUBELET}/pods/u/volumes/kubernetes.io~csi/pv/mount`,
];
for (const path of outside) {
  test(`not a target: ${JSON.stringify(path)}`, () => {
    assert.throws(() => parseTarget(path, KUBELET), failsWith("invalid", /^Target path /));
  });
}

test("whatever the path, what is accepted has exactly one shape", () => {
  const piece = fc.constantFrom("..", ".", "", "u", "volumes", "kubernetes.io~csi", "mount", "\0");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const path = [`${KUBELET}/pods`, ...pieces].join("/");
      try {
        const { podUid, pvName } = parseTarget(path, KUBELET);
        assert.equal(path, `${KUBELET}/pods/${podUid}/volumes/kubernetes.io~csi/${pvName}/mount`);
        assert(![podUid, pvName].some((name) => ["", ".", "..", "\0"].includes(name)));
      } catch (error) {
        assert(error instanceof Failure, String(error));
      }
    }),
    { examples: [[["u", "volumes", "kubernetes.io~csi", "u", "mount"]]] },
  );
});
