import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

const LEASES_LISTED = /"leases".*"listed"/;
const MAIN = join(import.meta.dirname, "../../src/main.ts");

export interface ControllerOptions {
  readonly kubeconfig: string;
  readonly env: Readonly<Record<string, string>>;
  /** The name of its pod: a candidate that comes back under its name leads again at once. */
  readonly name: string;
}

/** `s3csi controller` as a provisioner, in a process that may be killed; it dies with its test. */
export class ControllerProcess implements AsyncDisposable {
  readonly ended: Promise<unknown>;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  readonly #news = new EventEmitter();

  constructor({ kubeconfig, env, name }: ControllerOptions) {
    const flags = [`--kubeconfig=${kubeconfig}`, "--reconcile=false", "--log-level=debug"];
    const program = [process.execPath, MAIN, "controller", ...flags];
    this.#child = spawn("setpriv", ["--pdeathsig", "KILL", "--", ...program], {
      env: { PATH: process.env["PATH"], ...env, POD_NAME: name, POD_NAMESPACE: "default" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.ended = once(this.#child, "exit");
    const { stdout } = this.#child;
    if (stdout !== null) {
      createInterface({ input: stdout }).on("line", (line) => {
        this.#lines.push(line);
        this.#news.emit("line");
      });
    }
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** It follows the Lease: from now on it can take over. */
  async standingBy(signal: AbortSignal): Promise<void> {
    while (!this.#lines.some((line) => LEASES_LISTED.test(line)))
      await once(this.#news, "line", { signal });
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    await this.ended;
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
