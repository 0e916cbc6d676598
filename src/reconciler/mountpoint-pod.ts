import type { Pod } from "../kube/resource.ts";
import { optionListOf } from "../volume/attachment.ts";
import type { SharingKey } from "../volume/attachment.ts";
import { CACHE_DIRECTORY } from "../volume/cache-volume.ts";
import type { SizedCache } from "../volume/cache-volume.ts";
import { engineOf, isOwnMount } from "../volume/engine.ts";
import type { Engine } from "../volume/engine.ts";
import {
  ANNOTATION,
  DRIVER_NAME,
  LABEL,
  labelValueOf,
  MOUNTER_CONTAINER,
  sha224,
} from "../volume/names.ts";
import { engineCacheMib, parseResources } from "../volume/pod-resources.ts";
import { parsePodSettings } from "../volume/pod-settings.ts";
import type { PodPolicy, PodSettings } from "../volume/pod-settings.ts";
import type { NewPod } from "./action.ts";
import { ownedBy } from "./pod-owner.ts";
import type { OwnerReference } from "./pod-owner.ts";

/** The administrator's settings, for all Mountpoint Pods. */
export interface MountpointPodSettings {
  readonly namespace: string;
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly imagePullSecrets: readonly string[];
  readonly priorityClassName: string;
  /** Of those whose workload has headroom: they may push it away. */
  readonly preemptingPriorityClassName: string;
  readonly driverVersion: string;
  /** Unset: the platform assigns one, as OpenShift does from the namespace's range. */
  readonly userId: number | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** The settings that volumes may choose. */
  readonly policy: PodPolicy;
  /** Proxies; a volume's own win. */
  readonly env: Readonly<Record<string, string>>;
  /** Holds `ca-bundle.crt`: authorities to trust besides the image's. Empty for none. */
  readonly caConfigMap: string;
  /** Of pods that begin a mount; who goes on with one has that one's. */
  readonly engine: Engine;
  /** For the engine mount-s3 alone: an image that has both programs, and where the other one is. */
  readonly mountS3: { readonly image: string; readonly path: string };
}

/** What a Mountpoint Pod is made for. */
export interface Origin {
  readonly attachment: string;
  readonly key: SharingKey;
  /** The PV's volumeAttributes. */
  readonly attributes: Readonly<Record<string, string>>;
}

type PodSpec = NonNullable<Pod["spec"]>;
type Volume = NonNullable<PodSpec["volumes"]>[0];
type VolumeMount = NonNullable<PodSpec["containers"][0]["volumeMounts"]>[0];

const COMM = "/comm";
const CA_DIRECTORY = "/etc/s3csi/ca";
const CREDENTIALS_DIRECTORY = "/credentials";
/** The engine's last uploads take their time; the mounter ends as soon as they are done. */
const GRACE_SECONDS = 600;

/**
 * A pod with no right at all: no hostPath, no capability, no token. The scheduler binds it (its
 * node is a required affinity, not spec.nodeName), so that it takes part in the node's accounts.
 */
export function mountpointPodFor(
  pod: NewPod,
  origin: Origin,
  settings: MountpointPodSettings,
  owner?: OwnerReference,
): Pod {
  const { attachment, key } = origin;
  const spec = podSpecFor(pod.mountId, origin, settings);
  const isSuccessor = !isOwnMount(pod.name, pod.mountId);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: pod.name,
      namespace: settings.namespace,
      labels: labelsOf(pod, key, settings),
      annotations: {
        ...settings.annotations,
        [ANNOTATION.attachment]: attachment,
        [ANNOTATION.generation]: String(pod.generation),
        [ANNOTATION.mountId]: pod.mountId,
        [ANNOTATION.settingsHash]: settingsHashOf(spec),
        [ANNOTATION.volumeName]: key.persistentVolumeName,
        [ANNOTATION.volumeId]: key.volumeID,
        // Its workload keeps a node alive, it does not: else no node could ever be scaled down.
        "cluster-autoscaler.kubernetes.io/daemonset-pod": "true",
      },
      ...ownedBy(owner),
    },
    spec: {
      ...spec,
      ...(isSuccessor && withoutCacheRequests(spec, origin, settings)),
      priorityClassName: pod.preempting
        ? settings.preemptingPriorityClassName
        : settings.priorityClassName,
    },
  };
}

/** All that decides whether and how the pod starts; its priority depends on its workload too. */
export function podSpecFor(
  mountId: string,
  { key, attributes }: Origin,
  settings: MountpointPodSettings,
): PodSpec {
  const own = parsePodSettings(attributes, optionListOf(key), settings.policy);
  const engine = engineOf(mountId);
  const { serviceAccountName } = own;
  return {
    ...placement(key.nodeName),
    restartPolicy: "OnFailure",
    terminationGracePeriodSeconds: GRACE_SECONDS,
    // A volume that names an account wants its token; the account itself may still say no.
    ...(serviceAccountName === undefined
      ? { automountServiceAccountToken: false }
      : { serviceAccountName }),
    enableServiceLinks: false,
    imagePullSecrets: settings.imagePullSecrets.map((name) => ({ name })),
    // A FUSE server in another user namespace is not supported: no platform default decides.
    hostUsers: true,
    securityContext: { runAsNonRoot: true, ...userOf(settings.userId) },
    containers: [containerOf(own, settings, engine)],
    volumes: volumesOf(own.cache, settings.caConfigMap, engine),
  };
}

/**
 * A successor that the scheduler can't place ends a mount that workloads use. Its predecessor may
 * have requested nothing for the cache: a release without that, or a smaller size at its time. So
 * a successor requests nothing for it either; the limits of the cache hold all the same.
 */
function withoutCacheRequests(
  { containers }: PodSpec,
  { attributes }: Origin,
  { policy }: MountpointPodSettings,
): Pick<PodSpec, "containers"> {
  const resources = parseResources(attributes, undefined, policy.resources);
  return { containers: containers.map((container) => ({ ...container, resources })) };
}

/** As made here: what the API server and others add to a stored pod does not count. */
export function settingsHashOf(spec: PodSpec): string {
  return sha224(JSON.stringify(spec));
}

function labelsOf(pod: NewPod, key: SharingKey, settings: MountpointPodSettings) {
  return {
    ...settings.labels,
    "app.kubernetes.io/name": "s3csi",
    "app.kubernetes.io/component": "mountpoint",
    [LABEL.mountpointVersion]: labelValueOf(settings.driverVersion),
    [LABEL.driverVersion]: labelValueOf(settings.driverVersion),
    [LABEL.podUid]: pod.workloadUid,
    ...(pod.workloadNamespace && { [LABEL.workloadNamespace]: pod.workloadNamespace }),
    [LABEL.volumeName]: labelValueOf(key.persistentVolumeName),
  };
}

export function placement(nodeName: string): Pick<PodSpec, "affinity" | "tolerations"> {
  const matchFields = [{ key: "metadata.name", operator: "In", values: [nodeName] }];
  return {
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] },
      },
    },
    tolerations: [{ operator: "Exists" }],
  };
}

function userOf(userId: number | undefined): NonNullable<PodSpec["securityContext"]> {
  if (userId === undefined) return {};
  return { runAsUser: userId, runAsGroup: userId, fsGroup: userId };
}

function containerOf(
  own: PodSettings,
  settings: MountpointPodSettings,
  engine: Engine,
): PodSpec["containers"][0] {
  const env = { ...settings.env, ...own.env };
  const isForeign = engine === "mount-s3";
  const authorities = isForeign ? "AWS_CA_BUNDLE" : "NODE_EXTRA_CA_CERTS";
  if (settings.caConfigMap !== "") env[authorities] = `${CA_DIRECTORY}/ca-bundle.crt`;
  const named = Object.entries(env).map(([name, value]) => ({ name, value }));
  return {
    name: MOUNTER_CONTAINER,
    image: isForeign ? settings.mountS3.image : settings.image,
    imagePullPolicy: settings.imagePullPolicy,
    args: [
      "mounter",
      "--comm",
      COMM,
      ...cacheArgs(own),
      ...(isForeign ? mountS3Args(settings) : []),
    ],
    ...(named.length === 0 ? {} : { env: named }),
    resources: own.resources,
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
      // Here and not for the pod: its sandbox, where nothing runs, would have the filter compiled
      // once more, which takes a container runtime 16 ms.
      seccompProfile: { type: "RuntimeDefault" },
    },
    volumeMounts: mountsOf(own.cache, settings.caConfigMap, engine),
  };
}

function cacheArgs({ cache, resources }: PodSettings): string[] {
  return cache === undefined ? [] : ["--cache-limit", String(engineCacheMib(cache, resources))];
}

function mountS3Args({ mountS3 }: MountpointPodSettings): string[] {
  return ["--mount-s3", mountS3.path, "--credentials-dir", CREDENTIALS_DIRECTORY];
}

function mountsOf(
  cache: SizedCache | undefined,
  caConfigMap: string,
  engine: Engine,
): VolumeMount[] {
  const mounts: VolumeMount[] = [{ name: "comm", mountPath: COMM }];
  if (cache !== undefined) mounts.push({ name: "cache", mountPath: CACHE_DIRECTORY });
  if (caConfigMap !== "") mounts.push({ name: "ca", mountPath: CA_DIRECTORY, readOnly: true });
  if (engine === "mount-s3") mounts.push({ name: "credentials", mountPath: CREDENTIALS_DIRECTORY });
  return mounts;
}

function volumesOf(cache: SizedCache | undefined, caConfigMap: string, engine: Engine): Volume[] {
  const volumes: Volume[] = [{ name: "comm", ...memoryOf("10Mi") }];
  if (cache !== undefined) volumes.push({ name: "cache", ...cacheSourceOf(cache, engine) });
  if (caConfigMap !== "") volumes.push({ name: "ca", configMap: { name: caConfigMap } });
  if (engine === "mount-s3") volumes.push({ name: "credentials", ...memoryOf("1Mi") });
  return volumes;
}

function memoryOf(sizeLimit: string): Omit<Volume, "name"> {
  return { emptyDir: { medium: "Memory", sizeLimit } };
}

/**
 * mount-s3 counts the bytes of its files, the kubelet counts their blocks and the directories that
 * mount-s3 leaves behind. With a limit on disk the kubelet would evict the pod, and its mount can't
 * be resumed: so `--max-cache-size` alone limits that cache.
 */
function cacheSourceOf(cache: SizedCache, engine: Engine): Omit<Volume, "name"> {
  if (cache.kind === "emptyDir") {
    const { medium, sizeLimit } = cache;
    const isLimited = engine !== "mount-s3" || medium === "Memory";
    return { emptyDir: { ...(medium && { medium }), ...(isLimited && { sizeLimit }) } };
  }
  const metadata = { labels: { [`${DRIVER_NAME}/type`]: "local-ephemeral-cache" } };
  const spec = {
    accessModes: ["ReadWriteOnce"],
    storageClassName: cache.storageClassName,
    resources: { requests: { storage: cache.size } },
  };
  return { ephemeral: { volumeClaimTemplate: { metadata, spec } } };
}
