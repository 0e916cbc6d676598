import { mkdirSync, readdirSync, rmdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Log } from "../base/log.ts";
import { removeStages } from "../sys/bind-mount.ts";
import { FuseConnection } from "../sys/fuse-connection.ts";
import { FUSE_FILESYSTEM_TYPE, unmount } from "../sys/fuse-mount.ts";
import { SystemError } from "../sys/libc.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import type { Source } from "./kept-mount.ts";

/** Where the sources are mounted: a directory each, by the mount's id. */
export class SourceDirectories {
  readonly #path: string;

  constructor(path: string, log: Log) {
    this.#path = path;
    mkdirSync(path, { recursive: true });
    try {
      removeStages(path);
    } catch (error) {
      log.warn({ err: error }, "failed to remove what an interrupted read-only bind has left");
    }
  }

  /**
   * Mounted or not: an earlier life of this process may have left but the directory. A read-only
   * bind on an old kernel has a directory of its own here, whose name begins with a dot.
   */
  ids(): string[] {
    const names = readdirSync(this.#path); // names alone: what is mounted is not touched
    return names.filter((name) => !name.startsWith("."));
  }

  dirOf(mountId: string): string {
    return join(this.#path, mountId);
  }

  /** What is mounted for an id. */
  find(mountId: string): Source | undefined {
    const dir = this.dirOf(mountId);
    const entry = mountAt(readMounts(), dir);
    if (entry?.type !== FUSE_FILESYSTEM_TYPE) return undefined;
    return { dir, device: entry.device };
  }

  /** Whose mount has this device. */
  idOf(device: string): string | undefined {
    const entry = readMounts().find(
      (one) => one.device === device && dirname(one.mountPoint) === this.#path,
    );
    return entry === undefined ? undefined : basename(entry.mountPoint);
  }
}

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
