import { spawn } from "node:child_process";
import type { ChildProcess, StdioOptions } from "node:child_process";
import { mkdtemp, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle, BUNDLE_ENTRY } from "../../tools/bundle.ts";
import { childrenOf } from "../../tools/stack/processes.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import type { TestBucket } from "./test-bucket.ts";

export const MOUNT = [join(import.meta.dirname, "../../src/main.ts"), "mount"] as const;

export interface Ended {
  readonly status: number | null;
  readonly stderr: string;
}

/** The engine's command line for a bucket; later words win over the credentials of `env`. */
export function engineEnvironment({ access }: TestBucket): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    AWS_ACCESS_KEY_ID: access.accessKeyId,
    AWS_SECRET_ACCESS_KEY: access.secretAccessKey,
    AWS_ENDPOINT_URL: access.endpoint,
  };
}

/** An engine that runs until it ends or is killed; its output is kept. */
export class EngineProcess implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  readonly mounted: Promise<void>;
  /** Log lines of the mount, its engines included. */
  readonly logged: string[] = [];
  #stderr = "";

  constructor(
    args: readonly string[],
    env: NodeJS.ProcessEnv,
    stdio?: StdioOptions,
    program: string = MOUNT[0],
  ) {
    // Told to end when the test is killed: it unmounts itself, and nothing is left.
    const command = ["--pdeathsig", "TERM", "--", process.execPath, program, MOUNT[1], ...args];
    this.child = spawn("setpriv", command, {
      env,
      stdio: stdio ?? ["ignore", "pipe", "pipe"],
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.mounted = promise;
    if (this.child.stdout !== null) {
      createInterface({ input: this.child.stdout }).on("line", (line) => {
        this.logged.push(line);
        if (line.includes('"msg":"mounted"')) resolve();
      });
    }
    this.child.stderr?.on("data", (data: Buffer) => (this.#stderr += data.toString()));
    this.ended = new Promise((settle) => {
      this.child.once("close", (status) => settle({ status, stderr: this.#stderr }));
    });
  }

  /** The process that serves the mount, a child of the one that was started. */
  get servingPid(): number | undefined {
    return childrenOf(this.child.pid ?? 0)[0];
  }

  /** All children, also those that have died and are not reaped yet. */
  get servingPids(): number[] {
    return childrenOf(this.child.pid ?? 0);
  }

  async stop(signal: NodeJS.Signals): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const { servingPid } = this;
    this.child.kill("SIGKILL"); // first, else it starts another
    if (servingPid !== undefined) process.kill(servingPid, "SIGKILL");
    await this.ended;
  }
}

export interface MountedBucket extends AsyncDisposable {
  readonly dir: string;
  readonly engine: EngineProcess;
}

/** A real mount of the bucket. Gone when it is disposed of, whatever the test did to it. */
export async function mountBucket(
  bucket: TestBucket,
  args: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  program?: string,
): Promise<MountedBucket> {
  await using owned = new AsyncDisposableStack();
  const dir = owned.adopt(await mkdtemp(join(tmpdir(), "s3csi-engine-")), removeMountPoint);
  const all = [bucket.name, dir, ...args];
  const environment = { ...engineEnvironment(bucket), ...env };
  const engine = owned.use(new EngineProcess(all, environment, undefined, program));
  const early = await Promise.race([engine.mounted, engine.ended]);
  if (early !== undefined) throw new Error(`the engine ended: ${early.stderr}`);
  const kept = owned.move();
  return { dir, engine, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

let built: Promise<void> | undefined;

/** The same by the program as it is shipped: its engine starts several times as fast. */
export async function mountShipped(
  bucket: TestBucket,
  args: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
): Promise<MountedBucket> {
  built ??= bundle();
  await built;
  return mountBucket(bucket, args, env, BUNDLE_ENTRY);
}

async function removeMountPoint(dir: string): Promise<void> {
  try {
    unmount(dir, { detach: true });
  } catch {
    // it is unmounted already
  }
  await rmdir(dir);
}
