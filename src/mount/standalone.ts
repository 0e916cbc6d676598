import { realpathSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import { SLOTS_BYTES } from "../fuse/slots.ts";
import { mountFuse, openFuseDevice, unmount } from "../sys/fuse-mount.ts";
import { createMemfd } from "../sys/memfd.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import { raiseReadAhead } from "../sys/read-ahead.ts";
import { openBucket } from "./bucket-store.ts";
import { findCredentials } from "./find-credentials.ts";
import type { MountOptions } from "./mount-options.ts";
import { ServedMount } from "./served-mount.ts";

const READ_AHEAD_KIB = 1024;

/** Mounts, serves in the foreground, and leaves nothing behind: for a person, without a cluster. */
export async function runStandalone(
  options: MountOptions,
  env: Environment,
  log: Log,
): Promise<number> {
  const store = await openBucket(options, findCredentials(options, env), log);
  const fuseFd = options.inheritedFd ?? openDevice();
  const directory = options.inheritedFd === undefined ? attach(fuseFd, options) : undefined;
  const mountedByUs = directory !== undefined;
  const slotsFd = createMemfd("s3csi-slots", SLOTS_BYTES);
  const mount = new ServedMount({ fuseFd, slotsFd, store, options, mountedByUs, log });
  const asked = untilSignal();
  await Promise.race([mount.ready, mount.ended]);
  const device = directory === undefined ? undefined : mountAt(readMounts(), directory)?.device;
  if (device !== undefined) raiseReadAhead(device, READ_AHEAD_KIB);
  log.info({ bucket: options.bucket, directory: options.directory }, "mounted");
  await Promise.race([asked, mount.ended]);
  if (directory !== undefined) leave(directory);
  const complete = await mount.finish();
  log.info({ directory: options.directory, complete }, "unmounted");
  return complete ? 0 : 1;
}

function openDevice(): number {
  try {
    return openFuseDevice();
  } catch (error) {
    throw new Failure("denied", "can't open /dev/fuse: is it there, and are you root?", error);
  }
}

function attach(fuseFd: number, options: MountOptions): string {
  try {
    const directory = realpathSync(options.directory);
    const { readOnly } = options.engine;
    mountFuse(fuseFd, directory, { readOnly, source: `s3csi:${options.bucket}` });
    return directory;
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

async function untilSignal(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  process.once("SIGTERM", () => resolve());
  process.once("SIGINT", () => resolve());
  return promise;
}
