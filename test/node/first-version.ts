import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync } from "node:fs";
import { openFuseDevice } from "../../src/sys/fuse-mount.ts";

/**
 * Mounts at the target as the driver's first version does, with mount-s3 on the host. No program
 * serves the mount: every call on a file there waits until the mount is disposed.
 */
export function mountAsFirstVersion(target: string): Disposable {
  mkdirSync(target);
  const device = openFuseDevice();
  const options = "fd=3,rootmode=40000,user_id=0,group_id=0";
  const words = ["-i", "-t", "fuse", "-o", options, "mountpoint-s3", target];
  execFileSync("mount", words, { stdio: ["ignore", "inherit", "inherit", device] });
  return { [Symbol.dispose]: () => closeSync(device) };
}
