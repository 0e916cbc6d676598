import assert from "node:assert/strict";
import { test } from "node:test";
import { joinedOptionsOf } from "../volume/attachment.ts";
import { POD_POLICY } from "../volume/pod-settings.ts";
import { mountpointPodFor } from "./mountpoint-pod.ts";
import { ownerOf } from "./pod-owner.ts";
import type { MountpointPodSettings } from "./mountpoint-pod.ts";
import { ANNOTATION } from "../volume/names.ts";

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
  annotations: { team: "storage", "s3.csi.scality.com/mount-id": "mine" },
  policy: POD_POLICY,
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

test("a volume chooses its pod's resources and service account, and proxies if allowed", () => {
  const attributes = {
    mountpointContainerResourcesRequestsCpu: "2",
    mountpointContainerResourcesLimitsMemory: "1Gi",
    mountpointPodServiceAccountName: "reader",
    "mountpointEnv.HTTPS_PROXY": "http://mine:1",
  };
  assert.deepEqual(
    make(attributes).spec?.containers[0]?.env,
    pod.spec?.containers[0]?.env,
    "the administrator's proxies, by default",
  );
  const { spec } = make(attributes, { policy: { ...POD_POLICY, volumeEndpoints: true } });
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

test("a cache has a size, its engine less than that, and the node's disk is requested", () => {
  const { spec } = make({ cache: "emptyDir" }, {}, "mp-1");
  const [container] = spec?.containers ?? [];
  assert.deepEqual(spec?.volumes?.[1]?.emptyDir, { sizeLimit: "10Gi" });
  assert.deepEqual(container?.args, ["mounter", "--comm", "/comm", "--cache-limit", "9728"]);
  assert.equal(container.resources?.requests?.["ephemeral-storage"], "10Gi");
  assert.equal(container.resources.limits?.["ephemeral-storage"], undefined);
});

test("a successor requests nothing for the cache, so that it finds room where the mount is", () => {
  for (const cacheEmptyDirMedium of ["", "Memory"]) {
    const attributes = {
      cache: "emptyDir",
      ...(cacheEmptyDirMedium !== "" && { cacheEmptyDirMedium }),
    };
    const [first, successor] = [make(attributes, {}, "mp-1"), make(attributes, {}, "mp-0")];
    const [container] = successor.spec?.containers ?? [];
    assert.deepEqual(container?.resources, {
      requests: { cpu: "10m", memory: "64Mi" },
      limits: {},
    });
    assert.deepEqual(successor.spec?.volumes, first.spec?.volumes);
    assert.deepEqual(container.args, first.spec?.containers[0]?.args);
    const { settingsHash } = ANNOTATION;
    const hashes = [first, successor].map(({ metadata }) => metadata?.annotations?.[settingsHash]);
    assert.equal(hashes[0], hashes[1], "the same settings are no reason to replace a pod");
  }
});

function volumesFor(...mountOptions: string[]) {
  const { spec } = mountpointPodFor(
    { name: "mp-1", workloadUid: "uid-1", generation: 0, mountId: "mp-1", preempting: false },
    { attachment: "s3pa-1", key: { ...key, ...joinedOptionsOf(mountOptions) }, attributes: {} },
    settings,
  );
  return spec?.volumes?.map((volume) => volume.name);
}

test("an option with a comma inside is one option, not the two that it looks like", () => {
  assert.deepEqual(volumesFor("prefix=2024,q1/"), ["comm"]);
  assert.deepEqual(volumesFor("user-agent-prefix=a,cache"), ["comm"]);
  assert.deepEqual(volumesFor("prefix=2024,q1/", "cache"), ["comm", "cache"]);
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
  assert.equal(pod.metadata?.annotations?.["team"], "storage");
  assert.equal(pod.metadata.annotations["s3.csi.scality.com/mount-id"], "mp-0");
  assert.equal(pod.metadata?.labels?.["team"], "storage");
  assert.equal(pod.metadata.labels["app.kubernetes.io/name"], "s3csi");
});

test("with mount-s3: its image, its program, and memory for its keys", () => {
  const chosen = { engine: "mount-s3", caConfigMap: "ca", env: {} } as const;
  const { spec, metadata } = make({ cache: "emptyDir" }, chosen, "mp-1.mount-s3");
  const [container] = spec?.containers ?? [];
  assert.equal(container?.image, "s3csi-mount-s3:1");
  const words = ["--mount-s3", "/opt/mount-s3", "--credentials-dir", "/credentials"];
  const limit = ["--cache-limit", "9728"];
  assert.deepEqual(container.args, ["mounter", "--comm", "/comm", ...limit, ...words]);
  assert.deepEqual(container.env, [
    { name: "AWS_CA_BUNDLE", value: "/etc/s3csi/ca/ca-bundle.crt" },
  ]);
  const cacheIn = (one: typeof spec) => one?.volumes?.find(({ name }) => name === "cache");
  assert.deepEqual(cacheIn(spec)?.emptyDir, {}, "an eviction would end the mount");
  const inMemory = { cache: "emptyDir", cacheEmptyDirMedium: "Memory" };
  const limited = { medium: "Memory", sizeLimit: "512Mi" };
  assert.deepEqual(cacheIn(make(inMemory, chosen, "mp-1.mount-s3").spec)?.emptyDir, limited);
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

const hashOf = (...args: Parameters<typeof make>) =>
  make(...args).metadata?.annotations?.[ANNOTATION.settingsHash];

test("the hash of its settings tells whether another pod would start otherwise", () => {
  assert.match(hashOf({}) ?? "", /^[0-9a-f]{56}$/);
  assert.equal(hashOf({}, {}, "mp-7"), hashOf({}), "whichever mount it serves");
  assert.equal(hashOf({}, { priorityClassName: "other" }), hashOf({}), "the workload has a say");
  assert.equal(hashOf({}, { driverVersion: "2.0.0" }), hashOf({}), "a name, not a setting");
  const others: Partial<MountpointPodSettings>[] = [
    { image: "s3csi:2" },
    { imagePullPolicy: "Always" },
    { imagePullSecrets: ["registry"] },
    { caConfigMap: "ca" },
    { userId: undefined },
    { env: {} },
  ];
  for (const other of others) assert.notEqual(hashOf({}, other), hashOf({}), JSON.stringify(other));
  const limit = { mountpointContainerResourcesLimitsMemory: "1Gi" };
  assert.notEqual(hashOf(limit), hashOf({}));
});

test("its namespace owns a Mountpoint Pod as its controller, and blocks nobody by that", () => {
  assert.equal(pod.metadata?.ownerReferences, undefined);
  const newPod = { name: "mp-1", workloadUid: "u", generation: 0, mountId: "mp-1" };
  const origin = { attachment: "s3pa-1", key, attributes: {} };
  const owner = ownerOf({ metadata: { name: "mount-s3", uid: "namespace-uid" } });
  const owned = mountpointPodFor({ ...newPod, preempting: false }, origin, settings, owner);
  assert.deepEqual(owned.metadata?.ownerReferences, [
    {
      apiVersion: "v1",
      kind: "Namespace",
      name: "mount-s3",
      uid: "namespace-uid",
      controller: true,
    },
  ]);
});

test("no platform default puts a Mountpoint Pod into a user namespace", () => {
  assert.equal(pod.spec?.hostUsers, true);
});
