import assert from "node:assert/strict";
import { test } from "node:test";
import type { PersistentVolume } from "../kube/resource.ts";
import { volumeOf } from "./facts.ts";
import type { Workload } from "./facts.ts";
import { sharingKeyOf } from "./sharing-key.ts";

const workload = { nodeName: "n", fsGroup: "" } as Workload;

function keyFor(volumeAttributes: Record<string, string>, secretName?: string) {
  const ref = secretName === undefined ? {} : { nodePublishSecretRef: { name: secretName } };
  const csi = { driver: "s3.csi.scality.com", volumeHandle: "v", volumeAttributes, ...ref };
  const raw: PersistentVolume = { metadata: { name: "pv" }, spec: { csi } };
  const volume = volumeOf(raw);
  assert(volume !== undefined);
  return sharingKeyOf(workload, volume);
}

test("a dynamic volume with a Secret that the driver was not told of is served to nobody", () => {
  const dynamic = { bucketName: "data", dynamicProvisioning: "true" };
  const message = /nodePublishSecretRef/;
  assert.throws(() => keyFor(dynamic, "maybe-empty"), { kind: "invalid", message });
  assert.equal(keyFor(dynamic).authenticationSource, "driver");
  const told = { ...dynamic, authenticationSource: "secret" };
  assert.equal(keyFor(told, "mine").authenticationSource, "secret");
});
