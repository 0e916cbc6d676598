import assert from "node:assert/strict";
import { test } from "node:test";
import { mountpointPodFor } from "./mountpoint-pod.ts";

const key = {
  nodeName: "node-1",
  persistentVolumeName: "v".repeat(253),
  volumeID: "handle",
  mountOptions: "",
  workloadFSGroup: "",
  authenticationSource: "driver",
  workloadNamespace: "",
  workloadServiceAccountName: "",
};
const settings = {
  namespace: "mount-s3",
  image: "s3csi:1",
  imagePullPolicy: "Never",
  imagePullSecrets: [],
  priorityClassName: "mount-s3-critical",
  driverVersion: "1.0.0+dirty",
};
const pod = mountpointPodFor(
  { name: "mp-1", workloadUid: "uid-1", generation: 3, mountId: "mp-0" },
  "s3pa-1",
  key,
  settings,
);

test("a Mountpoint Pod has no right that it does not need", () => {
  const [container] = pod.spec?.containers ?? [];
  assert.equal(pod.spec?.automountServiceAccountToken, false);
  assert.deepEqual(container?.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  assert.deepEqual(
    pod.spec?.volumes?.map((volume) => volume.emptyDir),
    [{ medium: "Memory", sizeLimit: "10Mi" }],
  );
  assert.equal(container?.env, undefined, "no credentials in a pod's specification");
});

test("the scheduler binds it, to the workload's node and no other", () => {
  assert.equal(pod.spec?.nodeName, undefined);
  const affinity = pod.spec?.affinity?.nodeAffinity;
  assert.deepEqual(affinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms, [
    { matchFields: [{ key: "metadata.name", operator: "In", values: ["node-1"] }] },
  ]);
});

test("names that are no label values are hashed in labels and whole in annotations", () => {
  for (const value of Object.values(pod.metadata?.labels ?? {})) {
    assert.match(value, /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
  }
  const annotations = pod.metadata?.annotations ?? {};
  assert.equal(annotations["s3.csi.scality.com/volume-name"], key.persistentVolumeName);
  assert.equal(annotations["s3.csi.scality.com/mount-id"], "mp-0");
});
