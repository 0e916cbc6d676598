import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { chmodSync, closeSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Socket } from "node:net";
import { MounterLink } from "../../src/handover/mounter-link.ts";
import type { MountSpec } from "../../src/handover/messages.ts";
import { untilBeneath } from "../../src/sys/beneath.ts";
import { mountFuse, openFuseDevice } from "../../src/sys/fuse-mount.ts";
import { createMountMemory } from "../../src/sys/mount-fds.ts";
import { connectUnix } from "../../src/sys/unix-socket.ts";
import { childrenOf, waitUntilGone } from "../../tools/stack/processes.ts";
import type { TestBucket } from "../engine/test-bucket.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

/**
 * As in a container: the first process of its own pid namespace, so that all others there die with
 * it, with a /proc of its own and none of the host's volumes; and all of it dies with the test.
 * `$1`: the cgroup to be in, or nothing.
 */
const CONTAINER = `
  test -z "$1" || echo 0 > "$1"
  shift
  exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount-proc \\
    sh -c 'umount -a -c -l -t fuse.s3csi; exec "$@"' sh "$@"`;
const PROGRAM = join(import.meta.dirname, "../../src/main.ts");
/** What Node runs; the directory comes last. */
export const MOUNTER_WORDS = [PROGRAM, "mounter", "--comm"] as const;
/** A mounter with further flags. */
export function mounterWords(...flags: string[]): readonly string[] {
  const [program, role, comm] = MOUNTER_WORDS;
  return [program, role, ...flags, comm];
}
const START_WITHIN_MS = 10_000;

export interface MounterProcessOptions {
  readonly words?: readonly string[];
  /** The file that takes it into a cgroup. */
  readonly cgroup?: string;
}

/** A mounter, real or hostile, in a container of its own. */
export class MounterProcess implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly ended: Promise<number | NodeJS.Signals | null>;
  readonly commDir: string;
  readonly #owned = new AsyncDisposableStack();
  #output = "";

  constructor(commDir: string, { words = MOUNTER_WORDS, cgroup = "" }: MounterProcessOptions = {}) {
    this.commDir = commDir;
    // In a pod it is /comm: a kubelet's whole path is too long for a socket's address.
    const program = [process.execPath, ...words, "/proc/self/cwd"];
    this.child = spawn("sh", ["-ec", CONTAINER, "sh", cgroup, ...program], {
      cwd: commDir,
      env: { PATH: process.env["PATH"] },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on("data", (data: Buffer) => (this.#output += data.toString()));
    }
    this.ended = new Promise((resolve) => {
      this.child.once("exit", (code, signal) => resolve(code ?? signal));
    });
  }

  /** A real one with a directory of its own, once it listens. */
  static async start(options: MounterProcessOptions = {}): Promise<MounterProcess> {
    await using owned = new AsyncDisposableStack();
    const dir = owned.use(await temporaryDirectory());
    const comm = join(dir.path, "comm");
    mkdirSync(comm);
    chmodSync(dir.path, 0o755); // others may come as far as the socket, and are refused there
    const mounter = owned.use(new MounterProcess(comm, options));
    await mounter.listening();
    mounter.#owned.use(dir);
    owned.move();
    return mounter;
  }

  async listening(): Promise<void> {
    const signal = AbortSignal.timeout(START_WITHIN_MS);
    const there = untilBeneath(this.commDir, ["mount.sock"], () => true, signal);
    await Promise.race([there, this.#endedEarly()]);
  }

  get socketPath(): string {
    return join(this.commDir, "mount.sock");
  }

  /** What it and its engines have printed. */
  get output(): string {
    return this.#output;
  }

  /** Of the mounter itself, once it runs. */
  get pid(): number {
    const [pid = -1] = childrenOf(this.child.pid ?? -1);
    return pid;
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal);
  }

  /** As when its container is killed: all of it at once. */
  async killAll(): Promise<void> {
    const engines = this.enginePids;
    this.child.kill("SIGKILL");
    await this.ended;
    await waitUntilGone(async () => engines.filter((pid) => existsSync(`/proc/${pid}`)));
  }

  /** The engines that run, by the kernel's word. */
  get enginePids(): number[] {
    const { pid } = this;
    return pid === -1 ? [] : childrenOf(pid);
  }

  link(): MounterLink {
    return new MounterLink(this.socketPath, () => {});
  }

  /** A peer that sends what it likes. */
  rawConnection(): { readonly fd: number; readonly socket: Socket } {
    const fd = connectUnix(this.socketPath);
    const socket = new Socket({ fd, readable: true, writable: true });
    socket.on("error", () => {}); // the mounter may well hang up
    return { fd, socket };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const running = this.child.exitCode === null && this.child.signalCode === null;
    if (running) await this.killAll();
    else await this.ended;
    await this.#owned.disposeAsync(); // the directory, where it has its own
  }

  async #endedEarly(): Promise<never> {
    throw new Error(`the mounter ended with ${await this.ended}: ${this.#output}`);
  }
}

export interface OwnedMount extends AsyncDisposable {
  readonly dir: string;
  readonly fds: readonly number[];
  /** As the node service does once the engine has its own copies. */
  closeFds(): void;
}

/** The node service's part: a FUSE mount in a temporary directory, and its descriptors. */
export async function ownMount(): Promise<OwnedMount> {
  await using owned = new AsyncDisposableStack();
  const dir = owned.use(await temporaryDirectory());
  const path = join(dir.path, "source");
  mkdirSync(path);
  const memory = createMountMemory();
  const fds = [openFuseDevice(), memory.slots, memory.journal, memory.spool];
  let open = true;
  const closeFds = () => {
    if (open) for (const fd of fds) closeSync(fd);
    open = false;
  };
  owned.defer(closeFds);
  mountFuse(fds[0] ?? -1, path, { readOnly: false, source: "s3csi:test" });
  const all = owned.move();
  return { dir: path, fds, closeFds, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

export function mountSpec(
  { name, access }: TestBucket,
  change: Partial<MountSpec> = {},
): MountSpec {
  const { accessKeyId, secretAccessKey, endpoint } = access;
  return {
    bucket: name,
    args: ["--force-path-style", "--allow-other", `--endpoint-url=${endpoint}`],
    env: {},
    credentials: { accessKeyId, secretAccessKey },
    ...change,
  };
}

export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
