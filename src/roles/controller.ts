import { hostname } from "node:os";
import { setFlagsFromString } from "node:v8";
import * as z from "zod";
import { Failure } from "../base/failure.ts";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import { controllerService } from "../controller/controller-service.ts";
import { openVolumes } from "../controller/open-volumes.ts";
import { Controller, Identity } from "../csi/gen/csi_pb.ts";
import { identityService } from "../csi/identity.ts";
import { serve } from "../csi/serve.ts";
import { socketProblem } from "../csi/socket-problem.ts";
import { serveHealth } from "../health/health-server.ts";
import type { HealthChecks } from "../health/health-server.ts";
import { loadKubeAccess } from "../kube/kube-access.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { leadWhenElected } from "../kube/leader.ts";
import type { HeadroomSettings } from "../reconciler/headroom.ts";
import type { MountpointPodSettings } from "../reconciler/mountpoint-pod.ts";
import { installTimeOf } from "../provisioner/install-time.ts";
import { startProvisioner } from "../provisioner/run.ts";
import type { Driver } from "../provisioner/provisioner.ts";
import { volumeUses } from "../provisioner/volume-uses.ts";
import { startReconciler } from "../reconciler/run.ts";
import { isCacheSize } from "../volume/cache-volume.ts";
import { ENGINES } from "../volume/engine.ts";
import { DRIVER_NAME, MOUNTPOINT_NAMESPACE_DEFAULT } from "../volume/names.ts";
import { checkDefaultLimits, parseDefaultResources } from "../volume/pod-resources.ts";
import { POD_POLICY, checkVolumesFor } from "../volume/pod-settings.ts";
import {
  checkServer,
  imageName,
  imageNameIfAny,
  namespaceName,
  objectName,
  objectNameIfAny,
  objectNames,
  parseAnnotations,
  parseLabels,
  parsedBy,
} from "./kube-flags.ts";
import { CLUSTER_FLAGS, CREDENTIAL_FLAGS, HEALTH_FLAGS, runRole } from "./role.ts";
import type { Role } from "./role.ts";
import { LOG_FLAGS } from "./settings.ts";

const LEASE_NAME = "s3csi-controller";
/**
 * What thousands of pods are told in is garbage at once, and V8 lets it pile up to several times
 * what is in use before it looks. With 5,000 workloads this keeps 70 MB out of the peak.
 */
const HEAP_FLAGS = "--heap-growing-percent=50";

function proxyFlag(what: string) {
  const help = `${what}, for Mountpoint Pods; default none`;
  return { schema: z.string().default(""), placeholder: "TEXT", help };
}

function cacheSizeFlag(where: string, standard: string) {
  return {
    schema: z.string().refine(isCacheSize, "must be a quantity of at least 1Mi").default(standard),
    placeholder: "QUANTITY",
    help: `size of caches ${where} whose volumes name none; default ${standard}`,
  };
}

export const FLAGS = {
  endpoint: {
    schema: z.string().startsWith("unix:///").optional(),
    placeholder: "unix:///PATH",
    help: "socket for CSI clients; default none",
  },
  reconcile: {
    schema: z.stringbool().default(true),
    placeholder: "BOOLEAN",
    help: "watch workloads and keep Mountpoint Pods; default true",
  },
  provision: {
    schema: z.stringbool().default(true),
    placeholder: "BOOLEAN",
    help: "make volumes for claims; false where the official provisioner does; default true",
  },
  topology: {
    schema: z.stringbool().default(false),
    placeholder: "BOOLEAN",
    help: "tell CSI clients that volumes may be bound to places; default false",
  },
  republish: {
    schema: z.stringbool().default(false),
    placeholder: "BOOLEAN",
    help: "say in the CSIDriver object whether kubelets repeat publishes, as needed; default false",
  },
  mountpointImage: {
    schema: imageName().default(`s3csi.local/s3csi:${VERSION}`),
    placeholder: "IMAGE",
    help: "image of Mountpoint Pods: this program's own",
  },
  mountpointImagePullPolicy: {
    schema: z.enum(["Always", "IfNotPresent", "Never"]).default("IfNotPresent"),
    placeholder: "POLICY",
    help: "Always, IfNotPresent or Never; default IfNotPresent",
  },
  mountpointImagePullSecrets: {
    schema: objectNames(),
    placeholder: "NAME,…",
    help: "pull secrets of Mountpoint Pods, in their namespace; default none",
  },
  mountpointPriorityClass: {
    schema: objectName().default("mount-s3-critical"),
    placeholder: "NAME",
    help: "priority class of Mountpoint Pods; default mount-s3-critical",
  },
  mountpointPreemptingPriorityClass: {
    schema: objectName().default("mount-s3-preempting"),
    placeholder: "NAME",
    help: "that of Mountpoint Pods whose workload has headroom; default mount-s3-preempting",
  },
  headroom: {
    schema: z.stringbool().default(false),
    placeholder: "BOOLEAN",
    help: "reserve headroom for workloads with the scheduling gate; default false",
  },
  headroomImage: {
    schema: imageName().default("registry.k8s.io/pause:3.10"),
    placeholder: "IMAGE",
    help: "image of headroom pods, which does nothing; default registry.k8s.io/pause:3.10",
  },
  headroomPriorityClass: {
    schema: objectName().default("mount-s3-headroom"),
    placeholder: "NAME",
    help: "priority class of headroom pods; default mount-s3-headroom",
  },
  mountpointUser: {
    schema: z.union([z.literal("assigned"), z.coerce.number().int().min(1)]).default(1000),
    placeholder: "UID",
    help: "user of Mountpoint Pods, or assigned: by the platform, as on OpenShift; default 1000",
  },
  mountpointLabels: {
    schema: z.string().default("").transform(parsedBy(parseLabels)),
    placeholder: "KEY=VALUE,…",
    help: "further labels of Mountpoint Pods; default none",
  },
  mountpointAnnotations: {
    schema: z.string().default("{}").transform(parsedBy(parseAnnotations)),
    placeholder: "JSON",
    help: "further annotations of Mountpoint Pods; default none",
  },
  mountpointResources: {
    schema: z
      .string()
      .default(JSON.stringify(POD_POLICY.resources))
      .transform(parsedBy((text) => parseDefaultResources(JSON.parse(text)))),
    placeholder: "JSON",
    help: "requests and limits of Mountpoint Pods whose volumes name none",
  },
  mountpointPodsPerNamespace: {
    schema: z.coerce.number().int().min(0).default(0),
    placeholder: "NUMBER",
    help: "most Mountpoint Pods of the workloads of one namespace; 0, the default: no limit",
  },
  mountpointCacheSize: cacheSizeFlag("on a node's disk", POD_POLICY.cacheSizes.disk),
  mountpointCacheMemorySize: cacheSizeFlag("in memory", POD_POLICY.cacheSizes.memory),
  allowVolumeEndpoints: {
    schema: z.stringbool().default(false),
    placeholder: "BOOLEAN",
    help: "volumes may choose their proxies by mountpointEnv attributes; default false",
  },
  mountpointHttpProxy: proxyFlag("proxy to http endpoints"),
  mountpointHttpsProxy: proxyFlag("proxy to https endpoints"),
  mountpointNoProxy: proxyFlag("endpoints without a proxy"),
  mountpointEngine: {
    schema: z.enum(ENGINES).default("s3csi"),
    placeholder: "NAME",
    help: "what serves in Mountpoint Pods: s3csi, or the program mount-s3; default s3csi",
  },
  mountS3Image: {
    schema: imageNameIfAny().default(""),
    placeholder: "IMAGE",
    help: "of Mountpoint Pods with mount-s3: this program's own, with that one in it",
  },
  mountS3Path: {
    schema: z.string().startsWith("/").default("/opt/aws/mountpoint-s3/bin/mount-s3"),
    placeholder: "FILE",
    help: "mount-s3 in that image; default /opt/aws/mountpoint-s3/bin/mount-s3",
  },
  mountpointCaConfigMap: {
    schema: objectNameIfAny().default(""),
    placeholder: "NAME",
    help: "ConfigMap in their namespace whose ca-bundle.crt Mountpoint Pods trust; default none",
  },
  ...CREDENTIAL_FLAGS,
  ...CLUSTER_FLAGS,
  mountpointNamespace: {
    ...CLUSTER_FLAGS.mountpointNamespace,
    schema: namespaceName().default(MOUNTPOINT_NAMESPACE_DEFAULT),
  },
  ...HEALTH_FLAGS,
  ...LOG_FLAGS,
} as const satisfies Flags;

const role: Role<typeof FLAGS> = {
  name: "controller",
  summary: "make volumes for claims, keep Mountpoint Pods and attachments for workloads",
  flags: FLAGS,
  async start(config, log, env) {
    checkEngine(config);
    checkDefaultLimits(config.mountpointResources, config.mountpointEngine);
    checkVolumesFor(config.mountpointEngine);
    checkServer(env);
    setFlagsFromString(HEAP_FLAGS);
    await using owned = new AsyncDisposableStack();
    const userAgent = `s3csi/${VERSION}`;
    const { credentialsDir, mountpointNamespace } = config;
    const isOfCluster = config.reconcile || config.provision;
    const client = isOfCluster
      ? owned.use(new KubeClient(await loadKubeAccess(config.kubeconfig)))
      : undefined;
    const findUses = client && volumeUses(client);
    const settings = { env, credentialsDir, userAgent, log, findUses, mountpointNamespace };
    const opened = owned.use(openVolumes(settings));
    const { volumes } = opened;
    if (config.endpoint !== undefined) {
      const { topology } = config;
      const identity = { driverName: DRIVER_NAME, version: VERSION, controller: true, topology };
      const routes: Parameters<typeof serve>[1] = (router) =>
        router
          .service(Identity, identityService(identity))
          .service(Controller, controllerService(volumes));
      owned.use(await serve(config.endpoint, routes, log));
    }
    if (client !== undefined) owned.use(lead(client, config, volumes, log, env));
    const { healthPort } = config;
    const checks = healthOf(config.endpoint, client);
    if (healthPort !== undefined) owned.use(await serveHealth(healthPort, checks, log));
    return owned.move();
  },
};

/** Ready is who could do the work now, also while another does it: then it watches the Lease. */
function healthOf(endpoint: string | undefined, client: KubeClient | undefined): HealthChecks {
  const alive = async (signal: AbortSignal) => {
    const problem = endpoint === undefined ? undefined : await socketProblem(endpoint, signal);
    return [...(client?.watches.hanging() ?? []), ...(problem === undefined ? [] : [problem])];
  };
  const ready = async (signal: AbortSignal) => {
    const watches = client?.watches;
    const problems = [...(watches?.unsynced() ?? []), ...(watches?.faults() ?? [])];
    return [...(await alive(signal)), ...problems];
  };
  return { alive, ready };
}

function mountpointPodsOf(config: ConfigOf<typeof FLAGS>): MountpointPodSettings {
  const proxies = {
    HTTP_PROXY: config.mountpointHttpProxy,
    HTTPS_PROXY: config.mountpointHttpsProxy,
    NO_PROXY: config.mountpointNoProxy,
  };
  return {
    namespace: config.mountpointNamespace,
    image: config.mountpointImage,
    imagePullPolicy: config.mountpointImagePullPolicy,
    imagePullSecrets: config.mountpointImagePullSecrets,
    priorityClassName: config.mountpointPriorityClass,
    preemptingPriorityClassName: config.mountpointPreemptingPriorityClass,
    driverVersion: VERSION,
    userId: config.mountpointUser === "assigned" ? undefined : config.mountpointUser,
    labels: config.mountpointLabels,
    annotations: config.mountpointAnnotations,
    policy: {
      engine: config.mountpointEngine,
      volumeEndpoints: config.allowVolumeEndpoints,
      resources: config.mountpointResources,
      cacheSizes: { disk: config.mountpointCacheSize, memory: config.mountpointCacheMemorySize },
    },
    env: Object.fromEntries(Object.entries(proxies).filter(([, value]) => value !== "")),
    caConfigMap: config.mountpointCaConfigMap,
    engine: config.mountpointEngine,
    mountS3: { image: config.mountS3Image, path: config.mountS3Path },
  };
}

/** In time: without it each workload would wait for a pod that can't be made. */
function checkEngine({ mountpointEngine, mountS3Image }: ConfigOf<typeof FLAGS>): void {
  if (mountpointEngine !== "mount-s3" || mountS3Image !== "") return;
  throw new Failure(
    "invalid",
    "--mount-s3-image (S3CSI_MOUNT_S3_IMAGE): missing; with --mountpoint-engine mount-s3 it is " +
      "an image that has this program and mount-s3",
  );
}

function headroomOf(config: ConfigOf<typeof FLAGS>): HeadroomSettings {
  return {
    ...mountpointPodsOf(config),
    image: config.headroomImage,
    priorityClassName: config.headroomPriorityClass,
  };
}

/** Two controllers may run; the one that holds the Lease reconciles and provisions. */
function lead(
  client: KubeClient,
  config: ConfigOf<typeof FLAGS>,
  driver: Driver,
  log: Log,
  env: Environment,
): AsyncDisposable {
  const instance = env["POD_NAME"] ?? hostname();
  const common = { client, log, instance };
  const leading = new AbortController();
  const namespace = env["POD_NAMESPACE"] ?? "default";
  const provision = async (signal: AbortSignal) => {
    const installedMs = await installTimeOf({ client, namespace, log }, signal);
    await startProvisioner({ ...common, driver, installedMs }, signal);
  };
  const led = leadWhenElected(
    { client, log, identity: instance, name: LEASE_NAME, namespace },
    async (signal) => {
      const parts = [];
      const headroom = config.headroom ? { headroom: headroomOf(config) } : {};
      const limit = config.mountpointPodsPerNamespace;
      const limitPerNamespace = limit === 0 ? undefined : limit;
      const pods = { mountpointPods: mountpointPodsOf(config), limitPerNamespace, ...headroom };
      const { republish } = config;
      if (config.reconcile) parts.push(startReconciler({ ...common, ...pods, republish }, signal));
      if (config.provision) parts.push(provision(signal));
      await Promise.all(parts);
    },
    leading.signal,
  );
  return {
    async [Symbol.asyncDispose]() {
      leading.abort();
      await led;
    },
  };
}

export const run = (argv: readonly string[], env: Environment) => runRole(role, argv, env);
