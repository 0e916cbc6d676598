import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";

const MAIN = join(import.meta.dirname, "../../src/main.ts");

export interface HealthPage {
  readonly status: number;
  readonly text: string;
}

export interface RoleOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Instead of the program of this tree. */
  readonly program?: readonly string[];
  /** Is the process's file descriptor 3. */
  readonly fd?: number;
}

export const OK: HealthPage = { status: 200, text: "ok\n" };

/** One role of the program as a process of its own. What it logs can be waited for. */
export class RoleProcess implements AsyncDisposable {
  /** Resolves when it has ended, with its exit status if it has one. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  readonly #waiting = new Set<() => void>();

  constructor(args: readonly string[], options: RoleOptions = {}) {
    const { env = {}, program = [process.execPath, MAIN], fd = "ignore" } = options;
    // It ends with its runner, however that ends.
    const words = ["--pdeathsig", "KILL", "--", ...program, ...args];
    this.#child = spawn("setpriv", words, { env, stdio: ["ignore", "pipe", "inherit", fd] });
    assert(this.#child.stdout !== null);
    this.ended = once(this.#child, "exit").then(([status]) => status as number | null);
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      this.#lines.push(line);
      for (const look of this.#waiting) look();
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The first line that holds the words, in the past or to come, as its fields. */
  async logged(words: string | RegExp): Promise<Record<string, unknown>> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const look = () => {
      const line = this.#lines.find((one) =>
        typeof words === "string" ? one.includes(words) : words.test(one),
      );
      if (line !== undefined) resolve(line);
    };
    const ended = () => reject(new Error(`it ended first:\n${this.#lines.join("\n")}`));
    this.#waiting.add(look);
    this.#child.once("exit", ended);
    look();
    try {
      return JSON.parse(await promise) as Record<string, unknown>;
    } finally {
      this.#waiting.delete(look);
      this.#child.off("exit", ended);
    }
  }

  /** What a page of its --health-port=0 says. */
  async health(page: "healthz" | "readyz"): Promise<HealthPage> {
    const { port } = await this.logged("serving health");
    const response = await fetch(`http://127.0.0.1:${String(port)}/${page}`);
    return { status: response.status, text: await response.text() };
  }

  /** Readiness is for asking: nobody is told. The test's own limit ends it. */
  async untilReadyz(signal: AbortSignal, wanted: HealthPage = OK): Promise<void> {
    while (!isDeepStrictEqual(await this.health("readyz"), wanted)) signal.throwIfAborted();
  }

  /** Told to end, as a kubelet does it; gives the exit status. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    this.#child.kill(signal);
    return this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end("SIGKILL");
  }
}
