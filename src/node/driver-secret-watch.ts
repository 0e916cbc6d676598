import { watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { readSecretDirectory } from "../volume/driver-secret.ts";

/**
 * Calls `onChange` after each change of the credentials in a directory that the kubelet mounts.
 * Where the kernel grants no watch, the node service's regular refresh has to do.
 */
export function watchDriverSecret(directory: string, onChange: () => void, log: Log): Disposable {
  const watcher = openWatcher(directory, log);
  const read = () => {
    try {
      return readSecretDirectory(directory);
    } catch (error) {
      log.warn({ directory, err: error }, "failed to read driver credentials");
      return undefined;
    }
  };
  let last = read();
  // Each update of the volume is up to ten events: links, directories and files come and go.
  watcher?.on("change", () => {
    const now = read();
    if (isDeepStrictEqual(now, last)) return;
    last = now;
    log.info({ directory }, "driver credentials changed");
    onChange();
  });
  watcher?.on("error", (error) => {
    log.warn({ directory, err: error }, "watch of driver credentials failed");
  });
  return { [Symbol.dispose]: () => watcher?.close() };
}

function openWatcher(directory: string, log: Log): FSWatcher | undefined {
  try {
    return watch(directory);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR") {
      log.warn({ directory, err: error }, "watch of driver credentials failed");
      return undefined;
    }
    const rule = "must be a directory that exists, the mount path of the driver's Secret";
    throw new Failure("invalid", `--credentials-dir ${directory}: ${code}: ${rule}`, error);
  }
}
