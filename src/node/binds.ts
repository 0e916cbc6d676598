import { readMounts } from "../sys/mount-info.ts";
import type { Source } from "./kept-mount.ts";

/** With hostPID this is the host's first process: its mounts are what other pods may hold. */
const HOST_PID = 1;

/** Has the host the mount besides its source? As long as it has, a pod may use it. */
export function isBound(source: Source, kubeletPath: string): boolean {
  return bindsOf(source, kubeletPath).length > 0;
}

/** The pods into whose directories a mount is bound, by UID. */
export function boundWorkloads(source: Source, kubeletPath: string): readonly string[] {
  const uids = bindsOf(source, kubeletPath).map(
    (mountPoint) => /\/pods\/([^/]+)\/volumes\//.exec(mountPoint)?.[1],
  );
  return uids.filter((uid) => uid !== undefined);
}

function bindsOf({ dir, device }: Source, kubeletPath: string): readonly string[] {
  // The end of the path only: the kubelet's directory may be a link on the host.
  const suffix = dir.slice(kubeletPath.length);
  return readMounts(HOST_PID)
    .filter((entry) => entry.device === device && !entry.mountPoint.endsWith(suffix))
    .map((entry) => entry.mountPoint);
}
