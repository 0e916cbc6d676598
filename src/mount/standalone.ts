import { realpathSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import { EngineFailure } from "../supervisor/engine-process.ts";
import { Supervisor } from "../supervisor/supervisor.ts";
import { FuseConnection } from "../sys/fuse-connection.ts";
import { mountFuse, openFuseDevice, unmount } from "../sys/fuse-mount.ts";
import { createMountMemory } from "../sys/mount-fds.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import { raiseReadAhead } from "../sys/read-ahead.ts";
import { exitStatusOf } from "./exit-status.ts";
import type { MountOptions } from "./mount-options.ts";
import type { Given } from "./run.ts";

const READ_AHEAD_KIB = 1024;

/**
 * Mounts, keeps an engine on it in the foreground, and leaves nothing behind: for a person,
 * without a cluster.
 */
export async function runStandalone(
  options: MountOptions,
  { argv, env, log }: Given,
): Promise<number> {
  const fuse = options.inheritedFd ?? openDevice();
  let directory: string | undefined;
  let connection: FuseConnection | undefined;
  const mount = () => {
    ({ directory, connection } = attach(fuse, options));
  };
  const mountedByUs = options.inheritedFd === undefined;
  const asked = untilSignal();
  const own = mountedByUs ? { mount } : {};
  const spec = { args: argv, env, credentials: "find", mountedByUs, ...own } as const;
  const supervisor = new Supervisor(spec, { fuse, ...createMountMemory() }, { log });
  process.on("SIGHUP", () => supervisor.replaceEngine());
  try {
    await supervisor.ready;
  } catch (error) {
    if (directory !== undefined) leave(directory);
    await supervisor.ended;
    if (!(error instanceof EngineFailure)) throw error;
    return exitStatusOf(error.kind); // it has said why
  }
  log.info({ bucket: options.bucket, directory: options.directory }, "mounted");
  await Promise.race([asked, supervisor.ended]);
  if (directory !== undefined) leave(directory);
  supervisor.finish();
  const status = await supervisor.ended;
  // A thread of a dead engine may still wait inside the kernel and keep the connection alive.
  connection?.abort();
  log.info({ directory: options.directory, complete: status === 0 }, "unmounted");
  return status;
}

function openDevice(): number {
  try {
    return openFuseDevice();
  } catch (error) {
    throw new Failure("denied", "can't open /dev/fuse: is it there, and are you root?", error);
  }
}

interface Attached {
  readonly directory: string;
  readonly connection: FuseConnection | undefined;
}

function attach(fuseFd: number, options: MountOptions): Attached {
  try {
    const directory = realpathSync(options.directory);
    const { readOnly } = options.engine;
    mountFuse(fuseFd, directory, { readOnly, source: `s3csi:${options.bucket}` });
    // Before the engine comes: a file keeps what was set when it was opened.
    const device = mountAt(readMounts(), directory)?.device;
    if (device !== undefined) raiseReadAhead(device, READ_AHEAD_KIB);
    return { directory, connection: device === undefined ? undefined : new FuseConnection(device) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Failure("invalid", `can't mount at ${options.directory}: ${reason}`, error);
  }
}

/** Detached: who still has a file open there may close it, nobody new comes in. */
function leave(directory: string): void {
  try {
    unmount(directory, { detach: true });
  } catch {
    // Somebody else unmounted it: that is why we are here.
  }
}

/**
 * The listeners stay: a second signal must not kill this process, whose end would be that of its
 * engine, which removes the uploads of open files meanwhile.
 */
async function untilSignal(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => resolve());
  return promise;
}
