import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm, rmdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { unmount } from "../../../src/sys/fuse-mount.ts";
import { bundle, BUNDLE_DIR } from "../../bundle.ts";
import { unpackedPackages } from "../../debian.ts";
import type { S3Access } from "../../stack/s3-server.ts";

const READY_WITHIN_MS = 20_000;
const TICKS_PER_S = 100; // USER_HZ, the same on every Linux that Node runs on

/** A program that mounts the bucket at a directory, in the foreground. */
export interface Contender {
  readonly name: string;
  start(directory: string): ChildProcess;
}

/** Ours as it is shipped: the bundle, not the sources. */
export async function ourEngine(access: S3Access, bucket: string): Promise<Contender> {
  await bundle();
  const env = {
    AWS_ACCESS_KEY_ID: access.accessKeyId,
    AWS_SECRET_ACCESS_KEY: access.secretAccessKey,
    AWS_ENDPOINT_URL: access.endpoint,
  };
  const entry = join(BUNDLE_DIR, "s3csi.mjs");
  const start = (directory: string) =>
    spawn(process.execPath, [entry, "mount", bucket, directory, "--allow-overwrite"], {
      env,
      stdio: "ignore",
    });
  return { name: "s3csi", start };
}

/** s3fs of Debian, with its default options: it needs only its own library besides the system's. */
export async function s3fs(access: S3Access, bucket: string): Promise<Contender> {
  const root = await unpackedPackages("s3fs", ["s3fs", "libfuse2"]);
  const libraries = globSync("{lib,usr/lib}/*-linux-gnu", { cwd: root });
  const secrets = join(await mkdtemp(join(tmpdir(), "s3csi-bench-")), "passwd");
  await writeFile(secrets, `${access.accessKeyId}:${access.secretAccessKey}\n`, { mode: 0o600 });
  const options = `passwd_file=${secrets},url=${access.endpoint},use_path_request_style`;
  const env = { LD_LIBRARY_PATH: libraries.map((path) => join(root, path)).join(":") };
  const start = (directory: string) =>
    spawn(join(root, "usr/bin/s3fs"), [bucket, directory, "-f", "-o", options], {
      env,
      stdio: "ignore",
    });
  return { name: "s3fs", start };
}

/** One mount: fresh for each case, so that nothing is cached. */
export class Mounted implements AsyncDisposable {
  readonly directory: string;
  readonly #child: ChildProcess;

  private constructor(directory: string, child: ChildProcess) {
    this.directory = directory;
    this.#child = child;
  }

  static async start(contender: Contender): Promise<Mounted> {
    const directory = await mkdtemp(join(tmpdir(), "s3csi-bench-"));
    const outside = statSync(directory).dev;
    const mounted = new Mounted(directory, contender.start(directory));
    for (let waitedMs = 0; statSync(directory).dev === outside; waitedMs += 2) {
      if (waitedMs > READY_WITHIN_MS) throw new Error(`${contender.name} does not mount`);
      await delay(2);
    }
    return mounted;
  }

  get cpuSeconds(): number {
    const fields = readFileSync(`/proc/${this.#child.pid}/stat`, "utf8").split(") ")[1] ?? "";
    const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number);
    return (user + system) / TICKS_PER_S;
  }

  /** In MB: `VmHWM` is the highest ever, `VmRSS` the present. */
  memoryMb(line: "VmHWM" | "VmRSS"): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, "utf8");
    return (Number(new RegExp(`^${line}:\\s*(\\d+)`, "m").exec(status)?.[1]) * 1024) / 1e6;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, "exit");
    unmount(this.directory, { detach: true });
    await ended;
    await rmdir(this.directory).catch(() => rm(this.directory, { recursive: true }));
  }
}
