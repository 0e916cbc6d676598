import assert from "node:assert/strict";
import { test } from "node:test";
import { mountpointPodFor } from "./mountpoint-pod.ts";
import type { MountpointPodSettings } from "./mountpoint-pod.ts";

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
const settings: MountpointPodSettings = {
  namespace: "mount-s3",
  image: "s3csi:1",
  imagePullPolicy: "Never",
  imagePullSecrets: [],
  priorityClassName: "mount-s3-critical",
  preemptingPriorityClassName: "mount-s3-preempting",
  driverVersion: "1.0.0+dirty",
  userId: 1000,
  labels: { team: "storage", "app.kubernetes.io/name": "mine" },
  env: { HTTPS_PROXY: "http://all:1", NO_PROXY: ".svc" },
  caConfigMap: "",
  engine: "s3csi",
  mountS3: { image: "s3csi-mount-s3:1", path: "/opt/mount-s3" },
};
const make = (
  attributes: Record<string, string>,
  over: Partial<MountpointPodSettings> = {},
  mountId = "mp-0",
) =>
  mountpointPodFor(
    { name: "mp-1", workloadUid: "uid-1", generation: 3, mountId, preempting: false },
    { attachment: "s3pa-1", key, attributes },
    { ...settings, ...over },
  );
const pod = make({});

test("a Mountpoint Pod has no right that it does not need", () => {
  const [container] = pod.spec?.containers ?? [];
  assert.equal(pod.spec?.automountServiceAccountToken, false);
  assert.deepEqual(container?.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  });
  assert.deepEqual(
    pod.spec?.volumes?.map((volume) => volume.emptyDir),
    [{ medium: "Memory", sizeLimit: "10Mi" }],
  );
  const names = container?.env?.map((variable) => variable.name);
  assert.deepEqual(names, ["HTTPS_PROXY", "NO_PROXY"], "no credentials in its specification");
  assert.deepEqual(pod.spec?.securityContext, {
    runAsNonRoot: true,
    runAsUser: 1000,
    runAsGroup: 1000,
    fsGroup: 1000,
  });
});

test("the scheduler binds it, to the workload's node and no other", () => {
  assert.equal(pod.spec?.nodeName, undefined);
  const affinity = pod.spec?.affinity?.nodeAffinity;
  assert.deepEqual(affinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms, [
    { matchFields: [{ key: "metadata.name", operator: "In", values: ["node-1"] }] },
  ]);
});

test("it comes to every node, stays to the end of a drain, and keeps no node alive", () => {
  assert.deepEqual(pod.spec?.tolerations, [{ operator: "Exists" }]);
  assert.equal(pod.spec?.terminationGracePeriodSeconds, 600, "its workloads end first");
  assert.equal(pod.spec?.priorityClassName, "mount-s3-critical");
  const scaleDown = "cluster-autoscaler.kubernetes.io/daemonset-pod";
  assert.equal(pod.metadata?.annotations?.[scaleDown], "true");
  const { spec } = make({}, { imagePullSecrets: ["mirror"] });
  assert.deepEqual(spec?.imagePullSecrets, [{ name: "mirror" }]);
});

test("names that are no label values are hashed in labels and whole in annotations", () => {
  for (const value of Object.values(pod.metadata?.labels ?? {})) {
    assert.match(value, /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
  }
  const annotations = pod.metadata?.annotations ?? {};
  assert.equal(annotations["s3.csi.scality.com/volume-name"], key.persistentVolumeName);
  assert.equal(annotations["s3.csi.scality.com/mount-id"], "mp-0");
});

test("a volume chooses its pod's resources, proxies and service account", () => {
  const { spec } = make({
    mountpointContainerResourcesRequestsCpu: "2",
    mountpointContainerResourcesLimitsMemory: "1Gi",
    mountpointPodServiceAccountName: "reader",
    "mountpointEnv.HTTPS_PROXY": "http://mine:1",
  });
  const [container] = spec?.containers ?? [];
  assert.deepEqual(container?.resources, { requests: { cpu: "2" }, limits: { memory: "1Gi" } });
  assert.deepEqual(container.env, [
    { name: "HTTPS_PROXY", value: "http://mine:1" },
    { name: "NO_PROXY", value: ".svc" },
  ]);
  assert.equal(spec?.serviceAccountName, "reader");
  assert.equal(spec?.automountServiceAccountToken, undefined, "the account's own word counts");
});

function cacheOf(attributes: Record<string, string>) {
  const { spec } = make(attributes);
  assert.equal(spec?.containers[0]?.volumeMounts?.[1]?.mountPath, "/cache");
  return spec.volumes?.[1];
}

test("a cache is a volume at /cache, wherever it comes from", () => {
  assert.deepEqual(cacheOf({ cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi" }), {
    name: "cache",
    emptyDir: { sizeLimit: "1Gi" },
  });
  assert.deepEqual(
    cacheOf({ cache: "emptyDir", cacheEmptyDirSizeLimit: "1Gi", cacheEmptyDirMedium: "Memory" }),
    { name: "cache", emptyDir: { medium: "Memory", sizeLimit: "1Gi" } },
  );
  const claim = cacheOf({
    cache: "ephemeral",
    cacheEphemeralStorageClassName: "fast",
    cacheEphemeralStorageResourceRequest: "5Gi",
  })?.ephemeral?.volumeClaimTemplate;
  assert.equal(claim?.spec.storageClassName, "fast");
  assert.deepEqual(claim.spec.resources, { requests: { storage: "5Gi" } });
});

test("authorities come from a ConfigMap, the user from the platform where it insists", () => {
  const { spec } = make({}, { caConfigMap: "ca", userId: undefined, env: {} });
  const [container] = spec?.containers ?? [];
  assert.deepEqual(spec?.volumes?.[1], { name: "ca", configMap: { name: "ca" } });
  const value = `${container?.volumeMounts?.[1]?.mountPath}/ca-bundle.crt`;
  assert.deepEqual(container?.env, [{ name: "NODE_EXTRA_CA_CERTS", value }]);
  assert.deepEqual(spec?.securityContext, { runAsNonRoot: true });
});

test("the administrator's labels are there, and never in place of the driver's", () => {
  assert.equal(pod.metadata?.labels?.["team"], "storage");
  assert.equal(pod.metadata.labels["app.kubernetes.io/name"], "s3csi");
});

test("with mount-s3: its image, its program, and memory for its keys", () => {
  const chosen = { engine: "mount-s3", caConfigMap: "ca", env: {} } as const;
  const { spec, metadata } = make({ cache: "emptyDir" }, chosen, "mp-1.mount-s3");
  const [container] = spec?.containers ?? [];
  assert.equal(container?.image, "s3csi-mount-s3:1");
  const words = ["--mount-s3", "/opt/mount-s3", "--credentials-dir", "/credentials"];
  assert.deepEqual(container.args, ["mounter", "--comm", "/comm", ...words]);
  assert.deepEqual(container.env, [
    { name: "AWS_CA_BUNDLE", value: "/etc/s3csi/ca/ca-bundle.crt" },
  ]);
  const emptyDir = { medium: "Memory", sizeLimit: "1Mi" };
  assert.deepEqual(spec?.volumes?.at(-1), { name: "credentials", emptyDir });
  const mount = { name: "credentials", mountPath: "/credentials" };
  assert.deepEqual(container.volumeMounts?.at(-1), mount);
  assert.deepEqual(container.securityContext, pod.spec?.containers[0]?.securityContext);
  assert.equal(metadata?.annotations?.["s3.csi.scality.com/mount-id"], "mp-1.mount-s3");
});

test("who goes on with a mount of ours is ours, whatever the engine is by now", () => {
  const later = make({}, { engine: "mount-s3" });
  assert.deepEqual(later.spec?.containers, pod.spec?.containers);
  assert.deepEqual(later.spec?.volumes, pod.spec?.volumes);
});
