import { spawn } from "node:child_process";
import { once } from "node:events";
import { BUNDLE_ENTRY } from "../../bundle.ts";
import { childrenOf, memoryBytes } from "../../stack/processes.ts";
import { useOf } from "../engine/process-tree.ts";

/** As the chart starts it. */
const NODE_FLAGS = ["--max-semi-space-size=4"];

/** Where a pod finds its account. */
const ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount";
/** A /run of its own, with the account in it: who has a kubeconfig loads more than in a pod. */
const ENTER = [
  "mount -t tmpfs tmpfs /run",
  `mkdir -p ${ACCOUNT}`,
  `cp "$0"/* ${ACCOUNT}`,
  'exec "$@"',
].join(" && ");

export interface Pretended {
  readonly server: URL;
  /** Directory with token and authority. */
  readonly account: string;
}

/** The controller as it is shipped, against the bench's API server. Ends with this process. */
export class ControllerProcess implements AsyncDisposable {
  readonly #child;

  constructor({ server, account }: Pretended, mountpointNamespace: string) {
    const program = [process.execPath, ...NODE_FLAGS, BUNDLE_ENTRY, "controller"];
    const flags = [`--mountpoint-namespace=${mountpointNamespace}`, "--log-level=warn"];
    const ending = ["setpriv", "--pdeathsig", "KILL", "--", ...program, ...flags];
    this.#child = spawn("unshare", ["--mount", "sh", "-c", ENTER, account, ...ending], {
      stdio: ["ignore", "inherit", "inherit"],
      env: {
        ...process.env,
        KUBERNETES_SERVICE_HOST: server.hostname,
        KUBERNETES_SERVICE_PORT: server.port,
      },
    });
  }

  /** The highest that it ever was. */
  rssBytes(): number {
    const pid = this.#child.pid ?? -1;
    return memoryBytes(childrenOf(pid)[0] ?? pid, "VmHWM");
  }

  async cpuSeconds(): Promise<number> {
    return (await useOf(this.#child.pid ?? -1)).cpuSeconds;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await ended;
  }
}
