import { Failure } from "../base/failure.ts";
import { VolumeCapability_AccessMode_Mode as Mode } from "../csi/gen/csi_pb.ts";
import type { VolumeCapability } from "../csi/gen/csi_pb.ts";
import type { CacheVolume } from "../volume/cache-volume.ts";
import { planMount } from "../volume/mount-options.ts";

/**
 * S3 takes readers and writers from anywhere, so every promise of fewer holds as far as Kubernetes
 * keeps it. One writer beside many readers it does not keep, nor do we.
 */
const MODES: ReadonlySet<Mode> = new Set([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
  Mode.MULTI_NODE_READER_ONLY,
  Mode.MULTI_NODE_MULTI_WRITER,
]);
const MODE_NAMES = "ReadWriteMany, ReadOnlyMany, ReadWriteOnce and ReadWriteOncePod";

/** Why a volume can't be used so; undefined when it can. */
export function whyUnsupported(
  { accessType, accessMode }: VolumeCapability,
  ofPrefix: boolean,
  cache?: CacheVolume,
): string | undefined {
  if (accessType.case === undefined) return "Volume capability has no access type: use mount";
  if (accessType.case === "block") {
    return "Volume capability not supported: volumeMode Block; S3 volumes are filesystems";
  }
  const mode = accessMode?.mode ?? Mode.UNKNOWN;
  if (mode === Mode.UNKNOWN) return `Volume capability has no access mode; there are ${MODE_NAMES}`;
  if (!MODES.has(mode)) {
    const name = Object.entries(Mode).find(([, value]) => value === mode)?.[0] ?? String(mode);
    return (
      `Volume capability not supported: access mode ${name}; S3 volumes only support ` + MODE_NAMES
    );
  }
  return whyUnmountable(accessType.value.mountFlags, ofPrefix, cache);
}

/** What no node will ever mount is told to who makes the volume, not to who waits for it later. */
function whyUnmountable(
  mountFlags: readonly string[],
  ofPrefix: boolean,
  cache: CacheVolume | undefined,
): string | undefined {
  try {
    planMount(mountFlags, "", undefined, cache);
  } catch (error) {
    if (error instanceof Failure) return error.message;
    throw error;
  }
  const flag = mountFlags.find((text) => /^\s*(--)?prefix([\s=]|$)/.test(text));
  if (!ofPrefix || flag === undefined) return undefined;
  return `mountOptions: ${JSON.stringify(flag)} can't be used: the volume itself is a prefix`;
}
