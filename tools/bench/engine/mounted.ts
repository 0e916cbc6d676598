import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtemp, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { unmount } from "../../../src/sys/fuse-mount.ts";
import { mountAt, readMounts } from "../../../src/sys/mount-info.ts";
import { killIfThere, processesOf, waitUntilGone } from "../../stack/processes.ts";
import type { Arena } from "./arena.ts";
import type { Contender } from "./contenders.ts";
import { useOf } from "./process-tree.ts";
import type { Use } from "./process-tree.ts";

const READY_WITHIN_MS = 20_000;
const END_WITHIN_MS = 30_000;
const LAST_WORDS_MAX = 400;

/** In the environment of one mount's processes: the mount point. */
const MOUNT_MARK = "S3CSI_BENCH_MOUNT";

/** One mount: fresh for each case, so that nothing is cached. Dies with this process. */
export class Mounted implements AsyncDisposable {
  readonly directory: string;
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #stderr = "";

  private constructor(arena: Arena, contender: Contender, directory: string) {
    this.directory = directory;
    this.#name = contender.name;
    const command = ["--pdeathsig", "KILL", "--", ...contender.command(directory)];
    this.#child = spawn("setpriv", command, {
      cwd: "/",
      env: { ...contender.env, ...arena.mark, [MOUNT_MARK]: directory },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stdout?.resume(); // whoever wants to read it may
    this.#ended = new Promise((resolve) => {
      this.#child.once("error", () => resolve());
      this.#child.once("exit", () => resolve());
    });
    this.#child.stderr?.on("data", (data: Buffer) => {
      this.#stderr = `${this.#stderr}${data.toString()}`.slice(-LAST_WORDS_MAX);
    });
  }

  static async start(arena: Arena, contender: Contender): Promise<Mounted> {
    const directory = await mkdtemp(join(arena.dir, "mnt-"));
    await using owned = new AsyncDisposableStack();
    const mounted = owned.use(new Mounted(arena, contender, directory));
    await mounted.#ready();
    owned.move();
    return mounted;
  }

  /** The kernel tells of mounts by poll() alone, which Node lacks: look until it is there. */
  async #ready(): Promise<void> {
    const deadlineMs = performance.now() + READY_WITHIN_MS;
    while (mountAt(readMounts(), this.directory) === undefined) {
      const { exitCode, signalCode } = this.#child;
      if (exitCode !== null || signalCode !== null) {
        throw new Error(`${this.#name} ended with ${exitCode ?? signalCode}: ${this.#stderr}`);
      }
      if (performance.now() > deadlineMs) throw new Error(`${this.#name} does not mount`);
      await delay(2);
    }
    await stat(this.directory); // it is there before anybody serves it
  }

  get process(): ChildProcess {
    return this.#child;
  }

  use(): Promise<Use> {
    if (this.#child.pid === undefined) throw new Error(`${this.#name} did not start`);
    return useOf(this.#child.pid);
  }

  /** Whoever waits for the mount gets an error instead of an answer. */
  async kill(): Promise<void> {
    const processes = () => processesOf(`${MOUNT_MARK}=${this.directory}`);
    for (const pid of await processes()) killIfThere(pid);
    await waitUntilGone(processes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (mountAt(readMounts(), this.directory) !== undefined) {
      unmount(this.directory, { detach: true });
      const timer = new AbortController();
      const late = delay(END_WITHIN_MS, undefined, timer).catch(() => undefined);
      await Promise.race([this.#ended, late]);
      timer.abort();
    }
    await this.kill();
    await rmdir(this.directory);
  }
}
