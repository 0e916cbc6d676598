import { writeFile } from "node:fs/promises";
import { RoleProcess } from "../health/role-process.ts";

const LEASES_LISTED = /"leases".*"listed"/;

export interface ControllerOptions {
  readonly kubeconfig: string;
  readonly env: Readonly<Record<string, string>>;
  /** The name of its pod: a candidate that comes back under its name leads again at once. */
  readonly name: string;
}

/** `s3csi controller` as a provisioner, in a process that may be killed; it dies with its test. */
export class ControllerProcess extends RoleProcess {
  constructor({ kubeconfig, env, name }: ControllerOptions) {
    const flags = [`--kubeconfig=${kubeconfig}`, "--reconcile=false", "--log-level=debug"];
    super(["controller", ...flags], { env: { POD_NAMESPACE: "default", ...env, POD_NAME: name } });
  }

  /** It follows the Lease: from now on it can take over. */
  async standingBy(): Promise<void> {
    await this.logged(LEASES_LISTED);
  }
}

/** A kubeconfig for a line that adds the credentials itself. */
export async function writePlainKubeconfig(path: string, server: string): Promise<string> {
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server, "insecure-skip-tls-verify": true } }],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  await writeFile(path, JSON.stringify(config));
  return path;
}
