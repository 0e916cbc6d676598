import { hostname } from "node:os";
import * as z from "zod";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import { Identity } from "../csi/gen/csi_pb.ts";
import { identityService } from "../csi/identity.ts";
import { serve } from "../csi/serve.ts";
import { loadKubeAccess } from "../kube/kube-access.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { leadWhenElected } from "../kube/leader.ts";
import { startReconciler } from "../reconciler/run.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { CLUSTER_FLAGS, runRole } from "./role.ts";
import type { Role } from "./role.ts";
import { LOG_FLAGS } from "./settings.ts";

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
  summary: "watch workloads, keep Mountpoint Pods and attachments",
  flags: FLAGS,
  async start(config, log, env) {
    await using owned = new AsyncDisposableStack();
    if (config.endpoint !== undefined) {
      const identity = { driverName: DRIVER_NAME, version: VERSION, controller: false };
      const service = identityService(identity);
      owned.use(await serve(config.endpoint, (router) => router.service(Identity, service), log));
    }
    if (config.reconcile) owned.use(await reconcile(config, log, env));
    return owned.move();
  },
};

/** Two controllers may run; the one that holds the Lease reconciles. */
async function reconcile(
  config: ConfigOf<typeof FLAGS>,
  log: Log,
  env: Environment,
): Promise<AsyncDisposable> {
  const client = new KubeClient(await loadKubeAccess(config.kubeconfig));
  const identity = env["POD_NAME"] ?? hostname();
  const leading = new AbortController();
  const lease = { client, log, identity, name: LEASE_NAME };
  const led = leadWhenElected(
    { ...lease, namespace: env["POD_NAMESPACE"] ?? "default" },
    (signal) =>
      startReconciler(
        {
          client,
          log,
          namespace: config.mountpointNamespace,
          image: config.mountpointImage,
          imagePullPolicy: config.mountpointImagePullPolicy,
          imagePullSecrets: config.mountpointImagePullSecrets,
          priorityClassName: config.mountpointPriorityClass,
          driverVersion: VERSION,
          instance: identity,
        },
        signal,
      ),
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

export const run = (argv: readonly string[], env: Environment) => runRole(role, argv, env);
