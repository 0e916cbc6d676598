import { parseVolumeHandle } from "./volume-handle.ts";
import type { VolumePlace } from "./volume-handle.ts";

/** A PV of this driver, as far as it matters to what may be deleted on the S3 server. */
export interface VolumeUse {
  readonly pv: string;
  readonly handle: string;
  /** Where its pods read and write, whatever the handle says. */
  readonly bucket: string;
  readonly prefix: string;
  /** Its claim is deleted, and no pod has it any more. */
  readonly isReleased: boolean;
}

/** All PVs of this driver as they are now, also static ones. */
export type FindUses = (signal: AbortSignal) => Promise<readonly VolumeUse[]>;

/**
 * Whether the PV is about the objects of that place: by its handle, which anybody may have written,
 * or by what its pods see. A PV of the whole bucket does not stand for each prefix in it: such
 * buckets are shared on purpose.
 */
export function isUseOf({ handle, bucket, prefix }: VolumeUse, place: VolumePlace): boolean {
  const places = [parseVolumeHandle(handle), { bucket, prefix }];
  return places.some((one) => one?.bucket === place.bucket && one.prefix.startsWith(place.prefix));
}
