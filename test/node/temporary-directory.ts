import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { readMounts } from "../../src/sys/mount-info.ts";

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

/** A directory that goes with everything a test has mounted below it. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), "s3csi-node-"));
  return {
    path,
    async [Symbol.asyncDispose]() {
      for (const { mountPoint } of readMounts().toReversed()) {
        const within = mountPoint === path || mountPoint.startsWith(`${path}/`);
        if (within) unmount(mountPoint, { detach: true });
      }
      await rm(path, { recursive: true });
    },
  };
}
