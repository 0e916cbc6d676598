import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BUSYBOX_IMAGE } from "./busybox-image.ts";
import { cgroupOf } from "./cgroups.ts";
import type { Instance } from "./instance.ts";
import { POD_CIDR } from "./machine.ts";

export const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";
/** Of Kubernetes' programs and containerd. Memory is there; for the processor everybody waits. */
export const CLUSTER_ENVIRONMENT = { GOGC: "400" } as const;
/** What the kubelet may ask of the API server, in a second and at once. */
export interface KubeletLimits {
  readonly kubeAPIQPS: number;
  readonly kubeAPIBurst: number;
}
export interface NodeSetup {
  readonly limits: KubeletLimits;
  /** The OCI runtime that containerd calls. */
  readonly runtime: "runc" | "crun";
  /** Nodes have the role system:node beside the node authorizer. */
  readonly readsByRole: boolean;
}
/** A node as Kubernetes and Debian ship it, and as most clusters have it. */
export const DEFAULT_NODE: NodeSetup = {
  limits: { kubeAPIQPS: 50, kubeAPIBurst: 100 },
  runtime: "runc",
  readsByRole: false,
};
/** Spares a small busy machine waits that are none of the driver's (decisions 18, 21, 22). */
export const TUNED_NODE: NodeSetup = {
  limits: { kubeAPIQPS: 500, kubeAPIBurst: 1000 },
  runtime: "crun",
  readsByRole: true,
};

/** The files that the node's parts are started with, by what reads them. */
export interface ClusterConfig {
  readonly containerd: string;
  readonly kubelet: string;
  readonly proxy: string;
}

/** Writes the configuration of containerd, CNI, kubelet and kube-proxy below the instance. */
export async function writeClusterConfig(
  instance: Instance,
  cniPlugins: string,
  proxyKubeconfig: string,
  { limits, runtime }: NodeSetup,
): Promise<ClusterConfig> {
  const dir = join(instance.dir, "config");
  await mkdir(join(dir, "cni"), { recursive: true });
  const write = async (name: string, content: string | object) => {
    const path = join(dir, name);
    const text = typeof content === "string" ? content : JSON.stringify(content, null, 2);
    await writeFile(path, text);
    return path;
  };
  await write("cni/10-s3csi.conflist", cniConfig());
  // An empty file would make containerd copy the machine's own.
  const resolvConf = await write("resolv.conf", "nameserver 10.96.0.10\n");
  return {
    containerd: await write(
      "containerd.toml",
      containerdConfig(join(dir, "cni"), cniPlugins, runtime),
    ),
    kubelet: await write("kubelet.json", kubeletConfig(instance, resolvConf, limits)),
    proxy: await write("proxy.json", proxyConfig(proxyKubeconfig)),
  };
}

function cniConfig(): object {
  const ranges = [[{ subnet: POD_CIDR }]];
  const ipam = { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }] };
  return {
    cniVersion: "1.0.0",
    name: "s3csi",
    plugins: [{ type: "ptp", ipMasq: false, ipam }],
  };
}

function containerdConfig(
  cniConfigDir: string,
  cniPlugins: string,
  runtime: NodeSetup["runtime"],
): string {
  const cri = `plugins."io.containerd.grpc.v1.cri"`;
  return `
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "${CONTAINERD_SOCKET}"
[${cri}]
  sandbox_image = "${BUSYBOX_IMAGE}"
  # Lowering a score needs CAP_SYS_RESOURCE, which small virtual machines may lack.
  restrict_oom_score_adj = true
  [${cri}.containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "${runtime}"
    [${cri}.containerd.runtimes.${runtime}]
      runtime_type = "io.containerd.runc.v2"
      [${cri}.containerd.runtimes.${runtime}.options]
        SystemdCgroup = false
        BinaryName = "${runtime}"
  [${cri}.cni]
    bin_dir = "${cniPlugins}"
    conf_dir = "${cniConfigDir}"
`;
}

function kubeletConfig(instance: Instance, resolvConf: string, limits: KubeletLimits): object {
  const pki = join(instance.dir, "pki");
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: join(pki, "ca.crt") },
    },
    authorization: { mode: "Webhook" },
    tlsCertFile: join(pki, "kubelet.crt"),
    tlsPrivateKeyFile: join(pki, "kubelet.key"),
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${cgroupOf(instance.name)}`,
    failCgroupV1: false,
    failSwapOn: false,
    oomScoreAdj: 0,
    maxOpenFiles: 20_000,
    ...limits,
    imageGCHighThresholdPercent: 100,
    evictionHard: { "memory.available": "100Mi" },
    resolvConf,
    clusterDomain: "cluster.local",
    clusterDNS: ["10.96.0.10"],
  };
}

function proxyConfig(kubeconfig: string): object {
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    clusterCIDR: "10.244.0.0/16",
    clientConnection: { kubeconfig },
    // Zero: leave the kernel's connection tracking as it is.
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
  };
}
