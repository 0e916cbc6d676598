import { readFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { programs } from "../programs.ts";
import { makeCertificates, writeKubeconfig } from "./certificates.ts";
import { CLUSTER_ENVIRONMENT } from "./cluster-config.ts";
import { claimSlot } from "./instance.ts";
import type { Instance } from "./instance.ts";
import { Service } from "./service.ts";

const API_PORT = 26_443;
const ETCD_PORT = 22_379;
const ETCD_PEER_PORT = 22_380;
const READY_WITHIN_MS = 60_000;

export interface ControlPlane extends AsyncDisposable {
  readonly url: string;
  /** Path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly services: Readonly<Record<"etcd" | "apiServer" | "controllerManager", Service>>;
  /** Kills the API server and starts it again, on the same port and with what etcd has. */
  restartApiServer(): Promise<void>;
}

export interface ControlPlaneOptions {
  readonly instance: Instance;
  readonly address: string;
  /** Where pods reach it; a plane without nodes is reached on loopback only. */
  readonly advertised: boolean;
  readonly wrapper: readonly string[];
  readonly programs: string;
  /** Further admission plug-ins, as distributions of Kubernetes enable them. */
  readonly admissionPlugins?: readonly string[];
}

/** etcd, API server and controller manager, without nodes. Any number can run at once. */
export async function startApiServer(
  more: Pick<ControlPlaneOptions, "admissionPlugins"> = {},
): Promise<ControlPlane> {
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimSlot());
  const { address } = instance;
  const dir = await programs("kubernetes");
  const options = { ...more, instance, address, advertised: false, wrapper: [], programs: dir };
  const plane = owned.use(await startControlPlane(options));
  const all = owned.move();
  return { ...plane, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** The same as a part of a larger stack. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  await using owned = new AsyncDisposableStack();
  const { address, instance } = options;
  const start = (name: string, args: readonly string[], owner = owned) =>
    owner.use(
      new Service({
        instance,
        name,
        args,
        program: join(options.programs, name),
        env: CLUSTER_ENVIRONMENT,
        wrapper: options.wrapper,
      }),
    );
  const etcd = start("etcd", etcdArgs(instance, address));
  const pki = join(instance.dir, "pki");
  await makeCertificates(pki, [address]);
  const url = `https://${address}:${API_PORT}`;
  const kubeconfig = await writeKubeconfig(pki, "admin", url);

  const startApi = async (owner = owned) => {
    const service = start("kube-apiserver", apiServerArgs(pki, options), owner);
    await service.answers(() => isReady(url, pki), READY_WITHIN_MS);
    return service;
  };
  const apiServer = await startApi();
  const managerConfig = await writeKubeconfig(pki, "controller-manager", url);
  const controllerManager = start("kube-controller-manager", managerArgs(pki, managerConfig));

  const services = { etcd, apiServer, controllerManager };
  const all = owned.move();
  return {
    url,
    kubeconfig,
    services,
    async restartApiServer() {
      await services.apiServer.kill();
      services.apiServer = await startApi(all);
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function etcdArgs(instance: Instance, address: string): string[] {
  const client = `http://${address}:${ETCD_PORT}`;
  const peer = `http://${address}:${ETCD_PEER_PORT}`;
  return [
    `--data-dir=${instance.dir}/etcd`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--unsafe-no-fsync", // thrown away at the end
    "--log-level=warn",
  ];
}

function apiServerArgs(pki: string, options: ControlPlaneOptions): string[] {
  const { address, advertised, admissionPlugins = [] } = options;
  return [
    `--etcd-servers=http://${address}:${ETCD_PORT}`,
    `--bind-address=${address}`,
    `--secure-port=${API_PORT}`,
    ...(advertised
      ? [`--advertise-address=${address}`]
      : ["--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none"]),
    "--service-cluster-ip-range=10.96.0.0/16",
    "--authorization-mode=Node,RBAC",
    `--enable-admission-plugins=${["NodeRestriction", ...admissionPlugins].join(",")}`,
    "--allow-privileged=true",
    `--client-ca-file=${pki}/ca.crt`,
    `--tls-cert-file=${pki}/server.crt`,
    `--tls-private-key-file=${pki}/server.key`,
    `--kubelet-client-certificate=${pki}/apiserver-kubelet.crt`,
    `--kubelet-client-key=${pki}/apiserver-kubelet.key`,
    `--kubelet-certificate-authority=${pki}/ca.crt`,
    "--kubelet-preferred-address-types=InternalIP",
    `--service-account-key-file=${pki}/service-account.pub`,
    `--service-account-signing-key-file=${pki}/service-account.key`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--cert-dir=${pki}`,
  ];
}

function managerArgs(pki: string, kubeconfig: string): string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    "--leader-elect=false",
    "--use-service-account-credentials=true",
    `--service-account-private-key-file=${pki}/service-account.key`,
    `--root-ca-file=${pki}/ca.crt`,
    "--kube-api-qps=200", // else the default service account appears seconds late
    "--kube-api-burst=400",
    "--secure-port=0",
  ];
}

async function isReady(url: string, pki: string): Promise<boolean> {
  const tls = {
    ca: readFileSync(join(pki, "ca.crt")),
    cert: readFileSync(join(pki, "admin.crt")),
    key: readFileSync(join(pki, "admin.key")),
  };
  return new Promise((resolve, reject) => {
    const asked = request(`${url}/readyz`, { ...tls, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    asked.once("error", reject).end();
  });
}
