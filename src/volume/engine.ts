import { Failure } from "../base/failure.ts";

/** What serves a mount in a Mountpoint Pod: our own engine, or the program mount-s3. */
export const ENGINES = ["s3csi", "mount-s3"] as const;
export type Engine = (typeof ENGINES)[number];

/**
 * The least memory limit of a container that serves a mount. Our engine refuses to serve with less:
 * two processes, a part and a few names have no room. The program mount-s3 names no least, but the
 * mounter beside it is a Node process, which does not start with less.
 */
export const MEMORY_LIMIT_MIB_MIN: Readonly<Record<Engine, number>> = { s3csi: 96, "mount-s3": 16 };

const MOUNT_S3_SUFFIX = ".mount-s3";
/** Of the options that a volume may have, those that no mount-s3 knows. */
export const OPTIONS_OF_OURS = ["inode-limit", "no-journal", "no-resend", "outage-limit"] as const;

/**
 * The mount that a new Mountpoint Pod serves. Its engine is part of the name: an attachment keeps
 * it when the pod has vanished, and nobody hands a mount on to an engine that can't go on with it.
 */
export function mountIdOf(podName: string, engine: Engine): string {
  return engine === "mount-s3" ? `${podName}${MOUNT_S3_SUFFIX}` : podName;
}

/** The name of the pod that began a mount. */
export function firstPodOf(mountId: string): string {
  return mountId.endsWith(MOUNT_S3_SUFFIX) ? mountId.slice(0, -MOUNT_S3_SUFFIX.length) : mountId;
}

export function engineOf(mountId: string): Engine {
  return mountId.endsWith(MOUNT_S3_SUFFIX) ? "mount-s3" : "s3csi";
}

/** False for the mount of another pod, which this one has succeeded. */
export function isOwnMount(podName: string, mountId: string): boolean {
  return firstPodOf(mountId) === podName;
}

/** Whether another engine can go on with a mount whose engine has died. */
export function canResume(mountId: string): boolean {
  return engineOf(mountId) === "s3csi";
}

/**
 * What we do not know is mount-s3's to judge, which may be newer than this list; what is ours alone
 * is refused here, with better words than it has.
 */
export function refuseOptionsOfOurs(args: readonly string[]): void {
  for (const arg of args) {
    const [name = ""] = arg.slice(2).split("=", 1);
    if (!OPTIONS_OF_OURS.some((ours) => ours === name)) continue;
    throw new Failure(
      "invalid",
      `mountOptions: ${name} is not an option of the engine mount-s3: take it out, or have the ` +
        "administrator set mountpointPod.engine to s3csi",
    );
  }
}
