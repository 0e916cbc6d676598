import { join } from "node:path";
import * as z from "zod";
import { Failure } from "../base/failure.ts";
import type { Environment, Flags } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import { within } from "../base/within.ts";
import { Identity, Node } from "../csi/gen/csi_pb.ts";
import { Registration } from "../csi/gen/registration_pb.ts";
import { identityService } from "../csi/identity.ts";
import { serve, socketPathOf } from "../csi/serve.ts";
import { serveHealth } from "../health/health-server.ts";
import { loadKubeAccess } from "../kube/kube-access.ts";
import { EventWriter } from "../kube/event-writer.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { NODES } from "../kube/resource.ts";
import { AttachmentStatusWriter } from "../node/attachment-status.ts";
import { ClusterView } from "../node/cluster-view.ts";
import { credentialsFor } from "../node/driver-credentials.ts";
import { watchDriverSecret } from "../node/driver-secret-watch.ts";
import { NodeEvents } from "../node/node-events.ts";
import { NodeHealth } from "../node/node-health.ts";
import { nodeService } from "../node/node-service.ts";
import { PlatformCheck } from "../node/platform-check.ts";
import { registrationService } from "../node/registration.ts";
import { SourceMounts } from "../node/source-mounts.ts";
import { StartupTaint } from "../node/startup-taint.ts";
import { Volumes } from "../node/volumes.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { endWith } from "./end-with.ts";
import { CLUSTER_FLAGS, CREDENTIAL_FLAGS, HEALTH_FLAGS, runRole } from "./role.ts";
import type { Role } from "./role.ts";
import { LOG_FLAGS } from "./settings.ts";

/**
 * For what no event tells: a take-down that failed, a mounter that did not take credentials, a
 * kubelet that was upgraded in place.
 */
const SWEEP_MS = 120_000;

const NODE_WITHIN_MS = 30_000;

/** With what else the end takes, within the grace period that the chart gives the pod. */
const SERVED_WITHIN_MS = 20_000;

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
  allowVolumeEndpoints: {
    schema: z.stringbool().default(false),
    placeholder: "BOOLEAN",
    help: "volumes may choose their S3 server by the mount option endpoint-url; default false",
  },
  topologyLabels: {
    schema: z
      .string()
      .default("")
      .transform((keys) => keys.split(",").filter((key) => key !== "")),
    placeholder: "LABEL,…",
    help: "labels of the node that say where it is, for topology; default none",
  },
  ...CREDENTIAL_FLAGS,
  ...CLUSTER_FLAGS,
  ...HEALTH_FLAGS,
  ...LOG_FLAGS,
} as const satisfies Flags;

const role: Role<typeof FLAGS> = {
  name: "node",
  summary: "serve the kubelet: publish and unpublish volumes",
  flags: FLAGS,
  async start(config, log, env, ending) {
    const { endpoint, nodeId, kubeletPath, mountpointNamespace, credentialsDir } = config;
    const driver = { credentialsDir, env };
    await using owned = new AsyncDisposableStack();
    const client = owned.use(new KubeClient(await loadKubeAccess(config.kubeconfig)));
    const following = new AbortController();
    owned.defer(() => following.abort());
    const health = new NodeHealth(client.watches);
    const { healthPort } = config;
    if (healthPort !== undefined) owned.use(await serveHealth(healthPort, health, log));
    const view = new ClusterView({ client, nodeName: nodeId, namespace: mountpointNamespace, log });
    void view.follow(following.signal); // rejects only for a bug, which ends the process

    // By its node: a policy of the chart compares it with what the token says.
    const component = { controller: DRIVER_NAME, instance: nodeId };
    const writer = new EventWriter(client, component, log);
    const { signal } = following;
    const found = health.platformFound.bind(health);
    const checked = { client, nodeName: nodeId, events: writer, log, found, everyMs: SWEEP_MS };
    void new PlatformCheck(checked).follow(signal); // rejects only for a bug
    const events = new NodeEvents({ view, events: writer, kubeletPath, signal });
    const status = new AttachmentStatusWriter({ client, engineVersion: VERSION, signal, log });
    const mountsDir = join(kubeletPath, "plugins", DRIVER_NAME, "mnt");
    const sources = owned.use(
      new SourceMounts({
        kubeletPath,
        mountsDir,
        view,
        log,
        driverKeys: (pod) =>
          view.usesDriverKeys(pod) ? credentialsFor("driver", {}, driver) : undefined,
        onNews(news) {
          const { mountId, pod, source: _, ...rest } = news;
          log.warn({ mount: mountId, mountpoint: pod.name, ...rest }, "mount state changed");
          events.news(news);
          status.news(news);
          volumes.settleAll(); // the pod before is needed no more
        },
      }),
    );
    owned.defer(() => sources.untilAllServed(SERVED_WITHIN_MS));
    const volumes = new Volumes({
      view,
      sources,
      ...driver,
      log,
      userAgent: `s3csi/${VERSION}`,
      policy: { volumeEndpoints: config.allowVolumeEndpoints },
      refusal() {
        const reason = health.refusal();
        return reason === undefined ? undefined : `node ${nodeId}: ${reason}`;
      },
      warn: ({ workloadUid }, note) => events.warn(workloadUid, note),
    });
    await within(view.answered, ending, () => new Failure("timeout", "the API server is away"));
    const missing = view.attachmentsProblem();
    if (missing !== undefined) log.error({ reason: missing }, "volumes can't be published");
    const refreshKeys = () => void sources.refreshDriverKeys();
    if (credentialsDir !== undefined) {
      owned.use(watchDriverSecret(credentialsDir, refreshKeys, log));
    }
    await sources.adoptAll(); // before anything is taken down: who serves what is known only then
    refreshKeys(); // a mount that was adopted before the attachments were listed got no keys
    owned.use(view.onMountpointPodChange(() => volumes.settleAll()));
    volumes.settleAll();
    const sweep = setInterval(() => {
      void sources.adoptAll().then(
        () => volumes.settleAll(),
        (error: unknown) => log.warn({ err: error }, "failed to adopt mounts"),
      );
      refreshKeys();
    }, SWEEP_MS);
    owned.defer(() => clearInterval(sweep));

    const topology = await topologyOf(nodeId, config.topologyLabels, { client, log, ending });
    const placed = Object.keys(topology).length > 0;
    const about = { driverName: DRIVER_NAME, version: VERSION };
    const identity = { ...about, controller: false, topology: placed };
    const node = nodeService({ nodeId, kubeletPath, volumes, sources, topology });
    const routes: Parameters<typeof serve>[1] = (router) =>
      router.service(Identity, identityService(identity)).service(Node, node);
    owned.use(await serve(endpoint, routes, log));
    health.served(endpoint);
    // The last: from now on the kubelet sends work.
    const told = (reason: string | undefined) => health.registrationTold(reason);
    const socketPath = socketPathOf(endpoint);
    const registration = { driverName: DRIVER_NAME, socketPath, told, log };
    const registry = `unix://${join(kubeletPath, "plugins_registry", `${DRIVER_NAME}-reg.sock`)}`;
    const register = registrationService(registration);
    owned.use(await serve(registry, (router) => router.service(Registration, register), log));
    health.served(registry);
    const taint = new StartupTaint({ client, nodeName: nodeId, driverName: DRIVER_NAME, log });
    void taint.follow(following.signal); // likewise
    return owned.move();
  },
};

/** Where the node is, by those of its labels that the chart names. */
async function topologyOf(
  name: string,
  keys: readonly string[],
  { client, log, ending }: { client: KubeClient; log: Log; ending: AbortSignal },
): Promise<Record<string, string>> {
  if (keys.length === 0) return {};
  const signal = AbortSignal.any([ending, AbortSignal.timeout(NODE_WITHIN_MS)]);
  const node = await client.get(NODES, { name }, signal);
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
