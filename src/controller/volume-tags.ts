import { Failure } from "../base/failure.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { ON_DELETE } from "../volume/volume-handle.ts";
import type { OnDelete } from "../volume/volume-handle.ts";
import type { Tags, Unavailable } from "./buckets.ts";
import { capacityOf } from "./create-request.ts";
import type { VolumeWish } from "./create-request.ts";

export const TAG = {
  volume: `${DRIVER_NAME}/volume`,
  capacity: `${DRIVER_NAME}/capacity-bytes`,
  /** Only where the class names one. */
  region: `${DRIVER_NAME}/region`,
  /** Only where it is not the default, keepIfNotEmpty. */
  onDelete: `${DRIVER_NAME}/on-delete`,
  pvcName: "kubernetes.io/created-for/pvc/name",
  pvcNamespace: "kubernetes.io/created-for/pvc/namespace",
  pvName: "kubernetes.io/created-for/pv/name",
} as const;

const ON_DELETE_DEFAULT: OnDelete = "keepIfNotEmpty";

/** The tags of a volume's bucket; tags that others have put there stay. */
export function tagsFor(wish: VolumeWish, before: Tags): Tags {
  const { name, capacity, place, parameters } = wish;
  const { claim, onDelete } = parameters;
  const { [TAG.onDelete]: _, ...others } = before;
  const facts = (["pvcName", "pvcNamespace", "pvName"] as const).flatMap((fact) => {
    const value = claim[fact];
    return value === undefined ? [] : [[TAG[fact], value] as const];
  });
  return {
    ...others,
    [TAG.volume]: name,
    [TAG.capacity]: String(capacityOf(capacity)),
    ...(place.region === undefined ? {} : { [TAG.region]: place.region }),
    ...(onDelete === ON_DELETE_DEFAULT ? {} : { [TAG.onDelete]: onDelete }),
    ...Object.fromEntries(facts),
  };
}

/** The volume that a bucket was made for, by its tags. */
export function volumeIn(tags: Tags | Unavailable): string | undefined {
  return typeof tags === "object" ? tags[TAG.volume] : undefined;
}

/**
 * A value that this driver does not know deletes nothing that a known one would keep. To empty a
 * bucket takes the mark of the volume too; to keep it does not.
 */
export function onDeleteIn(tags: Tags | Unavailable): OnDelete {
  const value = typeof tags === "object" ? tags[TAG.onDelete] : undefined;
  if (value === undefined) return ON_DELETE_DEFAULT;
  const choice = ON_DELETE.find((known) => known === value) ?? "retain";
  return choice === "delete" && volumeIn(tags) === undefined ? ON_DELETE_DEFAULT : choice;
}

/** The bucket carries the mark of a volume: it must be this one, as it is asked for now. */
export function checkSame({ name, capacity, place }: VolumeWish, tags: Tags): void {
  if (tags[TAG.volume] !== name) {
    const other = tags[TAG.volume] ?? "";
    throw new Failure("conflict", `bucket ${place.bucket} is the volume ${other}, not ${name}`);
  }
  const region = tags[TAG.region];
  if (region !== place.region) {
    const [is, asked] = [region, place.region].map((one) => one ?? "that of the driver");
    throw new Failure("conflict", `volume ${name} exists with region ${is}, not ${asked}`);
  }
  const text = tags[TAG.capacity] ?? "";
  if (!/^\d+$/.test(text)) return;
  const has = BigInt(text);
  const { required, limit } = capacity;
  if (has >= required && (limit === 0n || has <= limit)) return;
  const range = limit === 0n ? `at least ${required}` : `${required} to ${limit}`;
  throw new Failure("conflict", `volume ${name} exists with ${has} bytes, not with ${range}`);
}
