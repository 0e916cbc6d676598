import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { createLog } from "../base/pino-log.ts";
import { Secret } from "../base/secret.ts";
import {
  CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../csi/gen/csi_pb.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import { BucketVolumes } from "./bucket-volumes.ts";

const log = createLog("error", {});
log.level = "silent";
const signal = AbortSignal.timeout(30_000);
const RWX = {
  accessMode: { mode: Mode.MULTI_NODE_MULTI_WRITER },
  accessType: { case: "mount" as const, value: {} },
};
const CACHE_CLAIM = `${mountpointPodNameOf("uid", "pv")}-cache`;
const OPENED = new Error("the S3 server is asked");

const volumes = new BucketVolumes({
  open: () => Promise.reject(OPENED),
  driverKeys: () => ({
    credentials: {
      accessKeyId: "id",
      secretAccessKey: new Secret("key"),
      sessionToken: undefined,
    },
    region: undefined,
  }),
  region: "us-east-1",
  log,
  mountpointNamespace: "mounts",
});

const requestOf = (namespace: string, claim: string) =>
  create(CreateVolumeRequestSchema, {
    name: "pvc-1",
    volumeCapabilities: [RWX],
    parameters: {
      "csi.storage.k8s.io/pvc/name": claim,
      "csi.storage.k8s.io/pvc/namespace": namespace,
      "csi.storage.k8s.io/pv/name": "pvc-1",
    },
  });

test("the claim for the cache of a Mountpoint Pod gets no volume of this driver", async () => {
  const request = requestOf("mounts", CACHE_CLAIM);
  const message =
    `claim mounts/${CACHE_CLAIM}: a Mountpoint Pod can't have its cache on a volume of this ` +
    "driver; choose another StorageClass in cacheEphemeralStorageClassName";
  await assert.rejects(volumes.create(request, signal), { kind: "refused", message });
  assert.throws(() => volumes.handleOf(request), { kind: "refused", message });
});

for (const [what, namespace, claim] of [
  ["of that name in another namespace", "team", CACHE_CLAIM],
  ["of another name in the namespace of the Mountpoint Pods", "mounts", "mp-data"],
] as const) {
  test(`a claim ${what} gets a volume`, async () => {
    const request = requestOf(namespace, claim);
    assert.match(volumes.handleOf(request), /^csi-s3-/);
    await assert.rejects(volumes.create(request, signal), OPENED);
  });
}
