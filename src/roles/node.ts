import { join } from "node:path";
import * as z from "zod";
import type { Environment, Flags } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import { Identity, Node } from "../csi/gen/csi_pb.ts";
import { Registration } from "../csi/gen/registration_pb.ts";
import { identityService } from "../csi/identity.ts";
import { serve, socketPathOf } from "../csi/serve.ts";
import { loadKubeAccess } from "../kube/kube-access.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { NODES } from "../kube/resource.ts";
import { ClusterView } from "../node/cluster-view.ts";
import { nodeService } from "../node/node-service.ts";
import { registrationService } from "../node/registration.ts";
import { SourceMounts } from "../node/source-mounts.ts";
import { Volumes } from "../node/volumes.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { endWith } from "./end-with.ts";
import { CLUSTER_FLAGS, LOG_FLAGS, runRole } from "./role.ts";
import type { Role } from "./role.ts";

const NODE_WITHIN_MS = 30_000;

const FLAGS = {
  endpoint: {
    schema: z.string().startsWith("unix:///"),
    placeholder: "unix:///PATH",
    help: "socket for the kubelet, below <kubelet>/plugins",
  },
  nodeId: {
    schema: z.string().min(1),
    placeholder: "NAME",
    help: "this node, as the cluster names it",
  },
  kubeletPath: {
    schema: z
      .string()
      .regex(/^\/.*[^/]$/, "an absolute path without a slash at its end")
      .default("/var/lib/kubelet"),
    placeholder: "PATH",
    help: "the kubelet's directory; default /var/lib/kubelet",
  },
  topologyLabels: {
    schema: z
      .string()
      .default("")
      .transform((keys) => keys.split(",").filter((key) => key !== "")),
    placeholder: "LABEL,…",
    help: "labels of the node that say where it is, for topology; default none",
  },
  ...CLUSTER_FLAGS,
  ...LOG_FLAGS,
} as const satisfies Flags;

const role: Role<typeof FLAGS> = {
  name: "node",
  summary: "serve the kubelet: publish and unpublish volumes",
  flags: FLAGS,
  async start(config, log, env) {
    const { endpoint, nodeId, kubeletPath, mountpointNamespace } = config;
    await using owned = new AsyncDisposableStack();
    const client = owned.use(new KubeClient(await loadKubeAccess(config.kubeconfig)));
    const following = new AbortController();
    owned.defer(() => following.abort());
    const view = new ClusterView({ client, nodeName: nodeId, namespace: mountpointNamespace, log });
    void view.follow(following.signal); // rejects only for a bug, which ends the process

    const mountsDir = join(kubeletPath, "plugins", DRIVER_NAME, "mnt");
    const sources = new SourceMounts({ kubeletPath, mountsDir, log });
    const volumes = new Volumes({ view, sources, env, userAgent: `s3csi/${VERSION}`, log });
    owned.use(view.onPodChange(() => volumes.settleAll()));
    await view.synced;
    volumes.settleAll();

    const topology = await topologyOf(nodeId, config.topologyLabels, client, log);
    const placed = Object.keys(topology).length > 0;
    const about = { driverName: DRIVER_NAME, version: VERSION };
    const identity = { ...about, controller: false, topology: placed };
    const node = nodeService({ nodeId, kubeletPath, volumes, topology });
    const routes: Parameters<typeof serve>[1] = (router) =>
      router.service(Identity, identityService(identity)).service(Node, node);
    owned.use(await serve(endpoint, routes, log));
    // The last: from now on the kubelet sends work.
    const registration = { driverName: DRIVER_NAME, socketPath: socketPathOf(endpoint), log };
    const registry = `unix://${join(kubeletPath, "plugins_registry", `${DRIVER_NAME}-reg.sock`)}`;
    const register = registrationService(registration);
    owned.use(await serve(registry, (router) => router.service(Registration, register), log));
    return owned.move();
  },
};

/** Where the node is, by those of its labels that the chart names. */
async function topologyOf(
  name: string,
  keys: readonly string[],
  client: KubeClient,
  log: Log,
): Promise<Record<string, string>> {
  if (keys.length === 0) return {};
  const node = await client.get(NODES, { name }, AbortSignal.timeout(NODE_WITHIN_MS));
  const labels = node.metadata?.labels ?? {};
  const missing = keys.filter((key) => labels[key] === undefined);
  if (missing.length > 0) log.warn({ node: name, missing }, "the node lacks topology labels");
  return Object.fromEntries(
    keys.flatMap((key) => (labels[key] === undefined ? [] : [[key, labels[key]]])),
  );
}

/** Ends for certain: a wait for a mounter that never comes is nothing to stay for. */
export async function run(argv: readonly string[], env: Environment): Promise<number> {
  return endWith(await runRole(role, argv, env));
}
