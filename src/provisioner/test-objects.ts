import type { Claim, Class, Volume } from "./facts.ts";

/** A claim that waits for its volume. */
export const CLAIM: Claim = {
  namespace: "team",
  name: "data",
  uid: "u-1",
  resourceVersion: "1",
  className: "s3",
  volumeName: "",
  isBound: false,
  isTerminating: false,
  isHeld: false,
  note: undefined,
  selectedNode: "",
  accessModes: ["ReadWriteMany"],
  volumeMode: "Filesystem",
  request: "1Gi",
  limit: "",
  annotations: {},
  unsupported: undefined,
};

export const CLASS: Class = {
  name: "s3",
  provisioner: "s3.csi.scality.com",
  createdMs: Date.UTC(2026, 0, 2),
  parameters: {},
  reclaimPolicy: "Delete",
  mountOptions: [],
  waitsForConsumer: false,
  allowedTopologies: [],
};

export const VOLUME: Volume = {
  name: "pvc-u-1",
  uid: "v-1",
  phase: "Bound",
  reclaimPolicy: "Delete",
  isTerminating: false,
  hasFinalizer: true,
  handle: "csi-s3-x",
  claim: { namespace: "team", name: "data", uid: "u-1" },
  className: "s3",
  deletionKeys: { of: "driver" },
};
