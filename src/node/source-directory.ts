import { rmdirSync } from "node:fs";
import { unmount } from "../sys/fuse-mount.ts";
import { SystemError } from "../sys/libc.ts";

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
