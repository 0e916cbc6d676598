import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { EventEmitter } from "node:events";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { MARK } from "./instance.ts";
import type { Instance } from "./instance.ts";
import { killIfThere, onlyChildOf } from "./processes.ts";

const RETRY_MS = 20;
const LAST_LINES = 25;

export interface ServiceOptions {
  readonly instance: Instance;
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Words before the program, e.g. to enter namespaces. */
  readonly wrapper?: readonly string[];
}

/** A long-running program of a stack. It dies with its runner, even with one killed by -9. */
export class Service implements AsyncDisposable {
  readonly name: string;
  /** Settles when the process ends, with how it ended. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #lines = new EventEmitter<{ line: [string] }>();
  readonly #last: string[] = [];
  readonly #logFile: string;
  readonly #wrapped: boolean;

  constructor(options: ServiceOptions) {
    const { instance, name, program, args, env, wrapper = [] } = options;
    this.name = name;
    this.#wrapped = wrapper.length > 0;
    this.#logFile = `${instance.dir}/${name}.log`;
    const command = ["--pdeathsig", "KILL", "--", ...wrapper, program, ...args];
    this.#child = spawn("setpriv", command, {
      cwd: "/",
      detached: true, // Ctrl-C goes to the runner alone; its services end with it
      env: { PATH: process.env["PATH"], ...env, [MARK]: instance.dir },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const log = createWriteStream(this.#logFile);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream !== null)
        createInterface({ input: stream }).on("line", (line) => this.#take(line, log));
    }
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => {
        log.end();
        resolve(`${name} did not start: ${error.message}`);
      });
      this.#child.once("close", (code, signal) => {
        log.end();
        resolve(`${name} ended with ${code ?? signal}`);
      });
    });
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error(`${this.name} did not start`);
    return this.#child.pid;
  }

  /** Every line of output, from now on. */
  onLine(listener: (line: string) => void): void {
    this.#lines.on("line", listener);
  }

  /** The first line of output that matches, from now on. */
  async line(pattern: RegExp, timeoutMs: number): Promise<string> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), timeoutMs);
    try {
      return await Promise.race([this.#match(pattern, abort.signal), this.#failOnEnd()]);
    } catch (error) {
      throw this.#withLog(`waited ${timeoutMs} ms for ${pattern} of ${this.name}`, error);
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  /** Until `check` answers true. For servers that announce nothing and can only be asked. */
  async answers(check: () => Promise<boolean>, timeoutMs: number): Promise<void> {
    const timer = new AbortController();
    const late = delay(timeoutMs, undefined, timer).then(() => {
      throw this.#withLog(`${this.name} did not answer within ${timeoutMs} ms`);
    });
    const stop = Promise.race([late, this.#failOnEnd()]);
    stop.catch(() => {}); // raced below; a late end is not this call's business
    try {
      while (!(await Promise.race([check().catch(() => false), stop]))) {
        await Promise.race([delay(RETRY_MS), stop]);
      }
    } finally {
      timer.abort();
    }
  }

  /**
   * A signal is for the program alone: its wrapper ends with it. SIGKILL is for the whole group,
   * because the wrapper's only child of this moment may be one that comes before the program.
   */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const wrapper = this.#wrapped ? this.#child.pid : undefined;
    const program = wrapper && (await onlyChildOf(wrapper).catch(() => undefined));
    if (program !== undefined) killIfThere(program, signal);
    const isForAll = program === undefined || signal === "SIGKILL";
    if (isForAll && this.#isThere) killIfThere(-this.pid, signal);
    await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  get #isThere(): boolean {
    const { pid, exitCode, signalCode } = this.#child;
    return pid !== undefined && exitCode === null && signalCode === null;
  }

  #take(line: string, log: NodeJS.WritableStream): void {
    log.write(`${line}\n`);
    this.#last.push(line);
    if (this.#last.length > LAST_LINES) this.#last.shift();
    this.#lines.emit("line", line);
  }

  /** A listener, not a loop over once(): lines of one chunk come within one turn. */
  #match(pattern: RegExp, signal: AbortSignal): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const listen = (line: string) => {
      if (pattern.test(line)) resolve(line);
    };
    this.#lines.on("line", listen);
    signal.addEventListener("abort", () => {
      this.#lines.off("line", listen);
      reject(new Error("no such line"));
    });
    return promise;
  }

  async #failOnEnd(): Promise<never> {
    throw this.#withLog(await this.ended);
  }

  #withLog(message: string, cause?: unknown): Error {
    return new Error(`${message}; the last lines of ${this.#logFile}:\n${this.#last.join("\n")}`, {
      cause,
    });
  }
}
