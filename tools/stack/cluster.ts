import { join } from "node:path";
import { CRUN_LOADER, crunLoader, crunRoot } from "../crun.ts";
import { debianLibraries, debianRoot } from "../debian.ts";
import { programs } from "../programs.ts";
import { firstLine, run } from "../run.ts";
import { startControlPlane } from "./api-server.ts";
import type { ControlPlane } from "./api-server.ts";
import { busyboxArchive } from "./busybox-image.ts";
import { writeKubeconfig } from "./certificates.ts";
import { createCgroups } from "./cgroups.ts";
import { checkHost } from "./check-host.ts";
import {
  CLUSTER_ENVIRONMENT,
  CONTAINERD_SOCKET,
  TUNED_NODE,
  writeClusterConfig,
} from "./cluster-config.ts";
import type { ClusterConfig, NodeSetup } from "./cluster-config.ts";
import { claimName } from "./instance.ts";
import type { Instance } from "./instance.ts";
import { MACHINE_ADDRESS, bootMachine, programDirName } from "./machine.ts";
import type { Machine } from "./machine.ts";
import { startS3In } from "./s3-server.ts";
import type { PosixS3Server } from "./s3-server.ts";
import { Service } from "./service.ts";

const CONTAINERD_WITHIN_MS = 20_000;
const FIRST_LINE_WITHIN_MS = 60_000;
const READY_TIMEOUT = "--timeout=60s";
const NODE_NAME = "node1";
const CTR_FLAGS = ["--address", CONTAINERD_SOCKET, "-n", "k8s.io"];
/**
 * The node authorizer may learn of a pod later than its node does, on a busy small machine by 300
 * ms. What it refuses till then costs the pod ten seconds: the kubelet waits before it asks again.
 */
const NODES_MAY_READ =
  "create clusterrolebinding nodes --clusterrole=system:node --group=system:nodes".split(" ");
/** The instance that it claims: one per machine. */
export const CLUSTER_NAME = "cluster";

/** A real Kubernetes of one node, with an S3 server beside it. */
export interface Cluster extends AsyncDisposable {
  readonly kubeconfig: string;
  readonly url: string;
  /** Reachable under the same address from pods and from the host. */
  readonly s3: PosixS3Server;
  readonly machine: Machine;
  readonly services: Readonly<Record<string, Service>>;
  /** Kills a program of the node (`kubelet`, say) and starts it again. */
  restart(name: string): Promise<void>;
  /** Runs kubectl as the administrator and gives what it printed. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /** Makes objects as `kubectl apply` does. */
  apply(...objects: readonly object[]): Promise<void>;
  /** `kubectl wait`, which on failure also tells what the cluster knows of the object. */
  waitFor(object: string, condition: string, ...args: readonly string[]): Promise<void>;
  /** The first line that a kubectl which watches or follows prints, past or to come. */
  firstLine(args: readonly string[], pattern: RegExp): Promise<string>;
  /** Makes the image of an OCI archive known to the node. */
  importImage(archive: string): Promise<void>;
  /** How many have ended and still take room: the kubelet removes them once a minute. */
  deadContainers(): Promise<number>;
  /** Each line of `ctr events`, with the runtime's own times, until it is disposed. */
  containerEvents(onLine: (line: string) => void): AsyncDisposable;
}

/** What the parts of a starting cluster share. */
interface Ground {
  readonly instance: Instance;
  readonly machine: Machine;
  readonly kubernetes: string;
  readonly env: Readonly<Record<string, string>>;
  readonly setup: NodeSetup;
  readonly owned: AsyncDisposableStack;
}

/** Ready when it returns: the node takes pods, the default service account exists. */
export async function startCluster(setup: NodeSetup = TUNED_NODE): Promise<Cluster> {
  checkHost();
  const [debian, crun, kubernetes, archive] = [
    await debianRoot(),
    await crunRoot(),
    await programs("kubernetes"),
    await busyboxArchive(),
  ];
  const versitygw = await programs("versitygw");
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimName(CLUSTER_NAME));
  await createCgroups(instance.name);
  const dirs = [debian, crun, kubernetes, versitygw];
  const machine = owned.use(await bootMachine(instance, dirs));
  const inside = (dir: string) => join(instance.dir, "programs", programDirName(dir));
  const env = await runtimeEnvironment(debian, inside(debian), inside(crun));
  const loader = (await crunLoader(crun)).replace(crun, inside(crun));
  await run("env", [...machine.enter, "ln", "-s", loader, CRUN_LOADER]);
  const ground = { instance, machine, kubernetes: inside(kubernetes), env, setup, owned };

  const starting = [
    startControlPlane({
      instance,
      address: MACHINE_ADDRESS,
      advertised: true,
      wrapper: machine.enter,
      programs: ground.kubernetes,
    }).then((it) => owned.use(it)),
    startS3In(instance, MACHINE_ADDRESS, machine.enter, inside(versitygw)).then((it) =>
      owned.use(it),
    ),
  ] as const;
  await Promise.allSettled(starting); // when one fails, the other must not go on starting things
  const [plane, s3] = await Promise.all(starting);
  const importImage = (path: string) => importInto(ground, path);
  const node = await startNode(ground, plane, inside(debian), () => importImage(archive));

  const kubectl = (args: readonly string[], input = "") =>
    run(join(kubernetes, "kubectl"), [`--kubeconfig=${plane.kubeconfig}`, ...args], { input });
  const waitFor: Cluster["waitFor"] = async (object, condition, ...args) => {
    await kubectl(["wait", object, condition, READY_TIMEOUT, ...args]).catch(
      async (error: unknown) => {
        const told = await kubectl(["describe", object, ...args]).catch(String);
        throw new Error(`waited for ${object} ${condition}:\n${told}`, { cause: error });
      },
    );
  };
  const firstOf: Cluster["firstLine"] = (args, pattern) => {
    const words = [`--kubeconfig=${plane.kubeconfig}`, ...args];
    return firstLine(join(kubernetes, "kubectl"), words, pattern, FIRST_LINE_WITHIN_MS);
  };
  const granted = setup.readsByRole ? kubectl(NODES_MAY_READ) : undefined;
  await Promise.all([granted, waitUntilReady(waitFor)]);
  const all = owned.move();
  return {
    kubeconfig: plane.kubeconfig,
    url: plane.url,
    s3,
    machine,
    get services() {
      return { ...plane.services, ...node.services };
    },
    restart: (name) => node.restart(name),
    kubectl,
    apply: async (...items) => {
      const list = { apiVersion: "v1", kind: "List", items };
      await kubectl(["apply", "-f", "-"], JSON.stringify(list));
    },
    waitFor,
    firstLine: firstOf,
    importImage,
    deadContainers: () => deadContainers(ground),
    containerEvents: (onLine) => followRuntime(ground, onLine),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function startNode(
  ground: Ground,
  plane: ControlPlane,
  debian: string,
  importFirst: () => Promise<void>,
): Promise<Pick<Cluster, "services" | "restart">> {
  const { instance, machine, env, setup, owned } = ground;
  const pki = join(instance.dir, "pki");
  const proxyKubeconfig = await writeKubeconfig(pki, "proxy", plane.url);
  const cniPlugins = join(debian, "usr/lib/cni");
  const config = await writeClusterConfig(instance, cniPlugins, proxyKubeconfig, setup);
  const start = (name: string, program: string, args: readonly string[]) =>
    new Service({ instance, name, program, args, env, wrapper: machine.enter });

  const containerdProgram = join(debian, "usr/bin/containerd");
  const containerd = start("containerd", containerdProgram, ["--config", config.containerd]);
  const services: Record<string, Service> = { containerd };
  owned.defer(async () => {
    await Promise.all(Object.values(services).map((service) => service.kill()));
  });
  await containerd.line(/successfully booted/, CONTAINERD_WITHIN_MS);
  await importFirst(); // the kubelet's first pod needs the pause image
  const argsOf = await nodeArgs(pki, plane.url, config);
  const startOne = (name: string, args: readonly string[]) => {
    services[name] = start(name, join(ground.kubernetes, name), args);
  };
  for (const [name, args] of Object.entries(argsOf)) startOne(name, args);
  const restart = async (name: string) => {
    const args = argsOf[name];
    if (args === undefined) throw new Error(`the node has no program ${name} to start again`);
    await services[name]?.kill();
    startOne(name, args);
  };
  return { services, restart };
}

async function nodeArgs(
  pki: string,
  url: string,
  config: ClusterConfig,
): Promise<Record<string, string[]>> {
  return {
    "kube-scheduler": [
      `--kubeconfig=${await writeKubeconfig(pki, "scheduler", url)}`,
      "--leader-elect=false",
      "--secure-port=0",
    ],
    kubelet: [
      `--config=${config.kubelet}`,
      `--kubeconfig=${await writeKubeconfig(pki, "node", url)}`,
      `--node-ip=${MACHINE_ADDRESS}`,
      `--hostname-override=${NODE_NAME}`,
    ],
    "kube-proxy": [`--config=${config.proxy}`, `--hostname-override=${NODE_NAME}`],
  };
}

async function waitUntilReady(waitFor: Cluster["waitFor"]): Promise<void> {
  const node = `node/${NODE_NAME}`;
  await Promise.all([
    waitFor(node, "--for=create").then(() => waitFor(node, "--for=condition=Ready")),
    waitFor("serviceaccount/default", "--for=create"),
  ]);
}

async function importInto(ground: Ground, archive: string): Promise<void> {
  await ctr(ground, "images", "import", archive);
}

/** What ran and has ended is a container without a task. */
async function deadContainers(ground: Ground): Promise<number> {
  const count = async (what: string) => (await ctr(ground, what, "list", "-q")).split("\n").length;
  return (await count("containers")) - (await count("tasks"));
}

function ctr(ground: Ground, ...args: readonly string[]): Promise<string> {
  const { machine, env } = ground;
  return run("env", [...machine.enter, ctrOf(ground), ...CTR_FLAGS, ...args], { env });
}

function followRuntime(ground: Ground, onLine: (line: string) => void): AsyncDisposable {
  const { instance, machine, env } = ground;
  const args = [...CTR_FLAGS, "events"];
  const wrapper = machine.enter;
  const service = new Service({
    instance,
    name: "ctr-events",
    program: ctrOf(ground),
    args,
    env,
    wrapper,
  });
  service.onLine(onLine);
  return service;
}

function ctrOf({ instance }: Ground): string {
  return join(instance.dir, "programs/debian/usr/bin/ctr");
}

/** The node's own programs come from the unpacked packages, with their libraries. */
async function runtimeEnvironment(
  debian: string,
  inside: string,
  crun: string,
): Promise<Record<string, string>> {
  const libraries = (await debianLibraries(debian)).replace(debian, inside);
  const unpacked = [join(inside, "usr/bin"), join(inside, "usr/sbin"), join(crun, "usr/bin")];
  const PATH = [...unpacked, "/usr/sbin", "/usr/bin", "/sbin", "/bin"].join(":");
  return { ...CLUSTER_ENVIRONMENT, PATH, LD_LIBRARY_PATH: libraries };
}
