import assert from "node:assert/strict";
import { test } from "node:test";
import { VolumeCapability_AccessMode_Mode as Mode } from "../csi/gen/csi_pb.ts";
import { classOf } from "./facts.ts";
import { planFor, volumeFor } from "./plan.ts";
import { CLAIM, CLASS } from "./test-objects.ts";

const made = { volumeId: "csi-s3-x", volumeContext: { bucketName: "csi-s3-x" }, topology: [] };
const SECRETS = {
  "csi.storage.k8s.io/provisioner-secret-name": "admin",
  "csi.storage.k8s.io/provisioner-secret-namespace": "kube-system",
  "csi.storage.k8s.io/node-publish-secret-name": "${pvc.name}",
  "csi.storage.k8s.io/node-publish-secret-namespace": "${pvc.namespace}",
};

const term = (zone: string) => ({
  matchExpressions: [
    { key: "zone", operator: "In", values: [zone] },
    { key: "rack", operator: "In", values: ["1"] },
  ],
});

test("the request says what the claim asks for, and for whom", () => {
  const claim = { ...CLAIM, limit: "2G", accessModes: ["ReadWriteMany", "ReadOnlyMany"] };
  const { request } = planFor(claim, { ...CLASS, mountOptions: ["allow-delete"] });
  assert.equal(request.name, "pvc-u-1");
  assert.equal(request.capacityRange?.requiredBytes, 1024n ** 3n);
  assert.equal(request.capacityRange?.limitBytes, 2_000_000_000n);
  const modes = request.volumeCapabilities.map(({ accessMode }) => accessMode?.mode);
  assert.deepEqual(modes, [Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_READER_ONLY]);
  assert.deepEqual(request.parameters, {
    authenticationSource: "driver",
    "csi.storage.k8s.io/pv/name": "pvc-u-1",
    "csi.storage.k8s.io/pvc/name": "data",
    "csi.storage.k8s.io/pvc/namespace": "team",
  });
});

test("the PV tells who made it, who deletes it and who mounts it", () => {
  const storageClass = { ...CLASS, parameters: SECRETS, mountOptions: ["uid=7"] };
  const plan = planFor(CLAIM, storageClass);
  assert.equal(plan.request.parameters["authenticationSource"], "secret");
  const { metadata, spec } = volumeFor(plan, made);
  assert.deepEqual(metadata?.annotations, {
    "pv.kubernetes.io/provisioned-by": "s3.csi.scality.com",
    "volume.kubernetes.io/provisioner-deletion-secret-name": "admin",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace": "kube-system",
  });
  assert.deepEqual(metadata?.finalizers, ["external-provisioner.volume.kubernetes.io/finalizer"]);
  assert.deepEqual(spec?.csi?.nodePublishSecretRef, { namespace: "team", name: "data" });
  assert.deepEqual(spec?.mountOptions, ["uid=7"]);
  assert.equal(spec?.claimRef?.uid, "u-1");
  assert.equal(spec?.nodeAffinity, undefined);
});

test("a retained volume has no finalizer", () => {
  const plan = planFor(CLAIM, { ...CLASS, reclaimPolicy: "Retain" });
  assert.deepEqual(volumeFor(plan, made).metadata?.finalizers, []);
});

test("allowed topologies become the PV's node affinity, one term for each place", () => {
  const zones = [
    { key: "zone", values: ["a", "b"] },
    { key: "rack", values: ["1"] },
  ];
  const allowedTopologies = [{ matchLabelExpressions: zones }];
  const storageClass = classOf({ provisioner: "s3.csi.scality.com", allowedTopologies });
  assert(storageClass !== undefined);
  const plan = planFor(CLAIM, storageClass);
  const topology = plan.request.accessibilityRequirements?.requisite.map((one) => one.segments);
  assert.deepEqual(topology, [
    { zone: "a", rack: "1" },
    { zone: "b", rack: "1" },
  ]);
  const { spec } = volumeFor(plan, { ...made, topology: topology ?? [] });
  assert.deepEqual(spec?.nodeAffinity?.required?.nodeSelectorTerms, [term("a"), term("b")]);
});

test("a claim for a snapshot, and keys that contradict each other, are refused", () => {
  const unsupported = "spec.dataSource: VolumeSnapshot s; S3 volumes begin empty";
  assert.throws(() => planFor({ ...CLAIM, unsupported }, CLASS), { message: /VolumeSnapshot s/ });
  const without = { ...CLASS, parameters: { authenticationSource: "secret" } };
  assert.throws(() => planFor(CLAIM, without), { message: /"secret", yet .* names no Secret/ });
  const against = { ...CLASS, parameters: { ...SECRETS, authenticationSource: "driver" } };
  assert.throws(() => planFor(CLAIM, against), { message: /"driver", yet .* names a Secret/ });
});
