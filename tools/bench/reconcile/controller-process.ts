import { spawn } from "node:child_process";
import { once } from "node:events";
import { BUNDLE_ENTRY } from "../../bundle.ts";
import { childrenOf, memoryBytes } from "../../stack/processes.ts";
import { useOf } from "../engine/process-tree.ts";

/** As the chart starts it. */
const NODE_FLAGS = ["--max-semi-space-size=4"];

/** The controller as it is shipped, against the bench's API server. Ends with this process. */
export class ControllerProcess implements AsyncDisposable {
  readonly #child;

  constructor(kubeconfig: string, mountpointNamespace: string) {
    const program = [process.execPath, ...NODE_FLAGS, BUNDLE_ENTRY, "controller"];
    const flags = [
      `--kubeconfig=${kubeconfig}`,
      `--mountpoint-namespace=${mountpointNamespace}`,
      "--log-level=warn",
    ];
    const wrapper = ["--pdeathsig", "KILL", "--", ...program, ...flags];
    this.#child = spawn("setpriv", wrapper, { stdio: ["ignore", "inherit", "inherit"] });
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
