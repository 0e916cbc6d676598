import { hostname } from "node:os";
import * as z from "zod";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import { controllerService } from "../controller/controller-service.ts";
import { openVolumes } from "../controller/open-volumes.ts";
import { Controller, Identity } from "../csi/gen/csi_pb.ts";
import { identityService } from "../csi/identity.ts";
import { serve } from "../csi/serve.ts";
import { loadKubeAccess } from "../kube/kube-access.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { leadWhenElected } from "../kube/leader.ts";
import { startProvisioner } from "../provisioner/run.ts";
import type { Driver } from "../provisioner/provisioner.ts";
import { startReconciler } from "../reconciler/run.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { CLUSTER_FLAGS, LOG_FLAGS, runRole } from "./role.ts";
import type { Role } from "./role.ts";

const LEASE_NAME = "s3csi-controller";

const FLAGS = {
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
  credentialsDir: {
    schema: z.string().startsWith("/").optional(),
    placeholder: "DIR",
    help: "where the Secret with the driver's keys is mounted; default AWS_… variables alone",
  },
  mountpointImage: {
    schema: z.string().min(1).default(`s3csi.local/s3csi:${VERSION}`),
    placeholder: "IMAGE",
    help: "image of Mountpoint Pods: this program's own",
  },
  mountpointImagePullPolicy: {
    schema: z.enum(["Always", "IfNotPresent", "Never"]).default("IfNotPresent"),
    placeholder: "POLICY",
    help: "Always, IfNotPresent or Never; default IfNotPresent",
  },
  mountpointImagePullSecrets: {
    schema: z
      .string()
      .default("")
      .transform((names) => names.split(",").filter((name) => name !== "")),
    placeholder: "NAME,…",
    help: "pull secrets of Mountpoint Pods, in their namespace; default none",
  },
  mountpointPriorityClass: {
    schema: z.string().min(1).default("mount-s3-critical"),
    placeholder: "NAME",
    help: "priority class of Mountpoint Pods; default mount-s3-critical",
  },
  ...CLUSTER_FLAGS,
  ...LOG_FLAGS,
} as const satisfies Flags;

const role: Role<typeof FLAGS> = {
  name: "controller",
  summary: "make volumes for claims, keep Mountpoint Pods and attachments for workloads",
  flags: FLAGS,
  async start(config, log, env) {
    await using owned = new AsyncDisposableStack();
    const userAgent = `s3csi/${VERSION}`;
    const { credentialsDir } = config;
    const opened = owned.use(openVolumes({ env, credentialsDir, userAgent, log }));
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
    if (config.reconcile || config.provision) owned.use(await lead(config, volumes, log, env));
    return owned.move();
  },
};

/** Two controllers may run; the one that holds the Lease reconciles and provisions. */
async function lead(
  config: ConfigOf<typeof FLAGS>,
  driver: Driver,
  log: Log,
  env: Environment,
): Promise<AsyncDisposable> {
  const client = new KubeClient(await loadKubeAccess(config.kubeconfig));
  const instance = env["POD_NAME"] ?? hostname();
  const common = { client, log, instance };
  const leading = new AbortController();
  const namespace = env["POD_NAMESPACE"] ?? "default";
  const led = leadWhenElected(
    { client, log, identity: instance, name: LEASE_NAME, namespace },
    async (signal) => {
      const parts = [];
      if (config.reconcile) parts.push(startReconciler(reconcilerOptions(config, common), signal));
      if (config.provision) parts.push(startProvisioner({ ...common, driver }, signal));
      await Promise.all(parts);
    },
    leading.signal,
  );
  return {
    async [Symbol.asyncDispose]() {
      leading.abort();
      await led;
      client[Symbol.dispose]();
    },
  };
}

function reconcilerOptions(
  config: ConfigOf<typeof FLAGS>,
  common: { readonly client: KubeClient; readonly log: Log; readonly instance: string },
) {
  return {
    ...common,
    namespace: config.mountpointNamespace,
    image: config.mountpointImage,
    imagePullPolicy: config.mountpointImagePullPolicy,
    imagePullSecrets: config.mountpointImagePullSecrets,
    priorityClassName: config.mountpointPriorityClass,
    driverVersion: VERSION,
  };
}

export const run = (argv: readonly string[], env: Environment) => runRole(role, argv, env);
