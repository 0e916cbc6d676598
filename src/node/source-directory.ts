import { rmdirSync } from "node:fs";
import type { Log } from "../base/log.ts";
import { FuseConnection } from "../sys/fuse-connection.ts";
import { unmount } from "../sys/fuse-mount.ts";
import { SystemError } from "../sys/libc.ts";
import type { Source } from "./kept-mount.ts";

/** At once where nobody uses it; else it ends with the last who does. */
export function unmountSource(dir: string): void {
  try {
    unmount(dir, { detach: false });
  } catch (error) {
    if (!(error instanceof SystemError && error.code === "EBUSY")) throw error;
    unmount(dir, { detach: true });
  }
}

export function removeDirectory(dir: string): void {
  try {
    rmdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** The handle to end a mount by force; where the kernel gives none, it ends without. */
export function connectionOf(source: Source | undefined, log: Log): FuseConnection | undefined {
  if (source === undefined) return undefined;
  try {
    return new FuseConnection(source.device);
  } catch (error) {
    log.warn({ err: error }, "no handle to end the connection by force");
    return undefined;
  }
}
