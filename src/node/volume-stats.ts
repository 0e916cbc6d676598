import { Failure } from "../base/failure.ts";
import { FUSE_FILESYSTEM_TYPE } from "../sys/fuse-mount.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import type { MountState } from "./kept-mount.ts";

export interface VolumeCondition {
  readonly abnormal: boolean;
  readonly message: string;
}

/**
 * How a published volume is, from mountinfo and from what its mounter says. The volume itself is
 * not touched: one that hangs must not hang whoever asks about it.
 */
export function conditionOf(
  path: string,
  stateOf: (device: string) => MountState | undefined,
): VolumeCondition {
  const entry = mountAt(readMounts(), path);
  if (entry === undefined) throw new Failure("absent", `no volume is published at ${path}`);
  if (entry.type !== FUSE_FILESYSTEM_TYPE) {
    return { abnormal: false, message: `${entry.type}: not served by this version of the driver` };
  }
  return describe(stateOf(entry.device));
}

function describe(state: MountState | undefined): VolumeCondition {
  if (state === undefined) return { abnormal: true, message: "nobody serves it: restart the pod" };
  switch (state.is) {
    case "served":
      return { abnormal: false, message: `served; engines replaced: ${state.recoveries}` };
    case "waiting": {
      const seconds = Math.round((Date.now() - state.sinceMs) / 1000);
      return { abnormal: true, message: `no engine for ${seconds} s: ${state.cause}` };
    }
    case "given up":
      return { abnormal: true, message: `given up: ${state.cause}` };
    default:
      return state satisfies never;
  }
}
