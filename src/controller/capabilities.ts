import { VolumeCapability_AccessMode_Mode as Mode } from "../csi/gen/csi_pb.ts";
import type { VolumeCapability } from "../csi/gen/csi_pb.ts";

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

/** Why a volume can't be used so; undefined when it can. */
export function whyUnsupported(
  { accessType, accessMode }: VolumeCapability,
  ofPrefix: boolean,
): string | undefined {
  if (accessType.case === undefined) return "Volume capability has no access type: use mount";
  if (accessType.case === "block") {
    return "Volume capability not supported: volumeMode Block; S3 volumes are filesystems";
  }
  const mode = accessMode?.mode ?? Mode.UNKNOWN;
  if (!MODES.has(mode)) {
    const name = Object.entries(Mode).find(([, value]) => value === mode)?.[0] ?? String(mode);
    return (
      `Volume capability not supported: access mode ${name}; S3 volumes only support ` +
      "ReadWriteMany, ReadOnlyMany, ReadWriteOnce and ReadWriteOncePod"
    );
  }
  const flag = accessType.value.mountFlags.find((text) => /^\s*(--)?prefix([\s=]|$)/.test(text));
  if (ofPrefix && flag !== undefined) {
    return `mountOptions: ${JSON.stringify(flag)} can't be used: the volume itself is a prefix`;
  }
  return undefined;
}
