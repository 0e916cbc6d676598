import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import type { KubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";

export const RELEASE_NAMESPACE = "kube-system";
export const CHART = join(import.meta.dirname, "../../deploy/chart");

/** Values without which the chart is refused. */
const REQUIRED = ["--set", "s3.endpointUrl=https://s3.test"];

/** A real control plane with the chart installed, and clients with the rights of its roles. */
export interface InstalledChart extends AsyncDisposable {
  readonly admin: KubeClient;
  /** Path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** With a node: as its pod there. The API server takes that from the pod's token. */
  readonly accessOf: (serviceAccount: string, nodeName?: string) => KubeAccess;
  readonly helm: (...args: string[]) => Promise<string>;
  /** As the administrator. */
  readonly kubectl: (...args: string[]) => Promise<string>;
  readonly restartApiServer: () => Promise<void>;
}

export async function installChart(
  admissionPlugins: readonly string[] = [],
): Promise<InstalledChart> {
  await using owned = new AsyncDisposableStack();
  const plane = owned.use(await startApiServer({ admissionPlugins }));
  const env = { ...process.env, KUBECONFIG: plane.kubeconfig };
  const helmProgram = join(await programs("helm"), "helm");
  const helm = (...args: string[]) => run(helmProgram, args, { env });
  const kubectlProgram = join(await programs("kubernetes"), "kubectl");
  await helm("install", "s3csi", CHART, "--namespace", RELEASE_NAMESPACE, ...REQUIRED);
  const access = await loadKubeAccess(plane.kubeconfig);
  const admin = owned.use(new KubeClient(access));
  const all = owned.move();
  return {
    admin,
    kubeconfig: plane.kubeconfig,
    helm: (...args) => {
      const values = args[0] === "uninstall" ? [] : REQUIRED;
      return helm(...args, "--namespace", RELEASE_NAMESPACE, ...values);
    },
    kubectl: (...args) => run(kubectlProgram, args, { env }),
    restartApiServer: () => plane.restartApiServer(),
    accessOf: (serviceAccount, nodeName) => impersonating(access, serviceAccount, nodeName),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The API server judges by the service account's own roles. */
function impersonating(access: KubeAccess, serviceAccount: string, nodeName?: string): KubeAccess {
  const as: Record<string, string> = {
    "Impersonate-User": `system:serviceaccount:${RELEASE_NAMESPACE}:${serviceAccount}`,
  };
  const extra = "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name";
  if (nodeName !== undefined) as[extra] = nodeName;
  return {
    ...access,
    async headers() {
      return { ...(await access.headers()), ...as };
    },
  };
}

/** A line to the API server that can be cut. */
export class CuttableLine implements AsyncDisposable {
  readonly #server = createServer({ pauseOnConnect: true });
  readonly #open = new Set<Socket>();
  readonly #target: URL;
  #cut = false;

  constructor(target: URL) {
    this.#target = target;
    this.#server.on("connection", (near) => this.#join(near));
  }

  async access(access: KubeAccess): Promise<KubeAccess> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const { port } = this.#server.address() as AddressInfo;
    const tls = { ...access.tls, servername: "kubernetes" };
    return { server: new URL(`https://127.0.0.1:${port}`), tls, headers: () => access.headers() };
  }

  cut(): void {
    this.#cut = true;
    for (const socket of this.#open) socket.destroy();
  }

  mend(): void {
    this.#cut = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(near: Socket): void {
    if (this.#cut) return void near.destroy();
    const far = connect(Number(this.#target.port), this.#target.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#open.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#open.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }
}
