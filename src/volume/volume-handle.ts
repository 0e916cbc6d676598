import { createHash } from "node:crypto";

/** The fate of a volume's objects when its PV is deleted. */
export const ON_DELETE = ["delete", "keepIfNotEmpty", "retain"] as const;
export type OnDelete = (typeof ON_DELETE)[number];

/** Where a dynamic volume's objects are. DeleteVolume gets a handle and nothing else. */
export interface VolumePlace {
  readonly bucket: string;
  /** Only where it is not the driver's own. */
  readonly region: string | undefined;
  /** Empty: the volume is the whole bucket, which was made for it. */
  readonly prefix: string;
  /** As far as the handle tells: a bucket of its own has the choice in its tags instead. */
  readonly onDelete: OnDelete;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/;
const HANDLE = new RegExp(
  [
    "^(?<bucket>[A-Za-z0-9._-]+)",
    "(?:@(?<region>[A-Za-z0-9-]+))?",
    "(?:/(?<prefix>[^#]+))?",
    "(?<emptied>#delete)?$",
  ].join(""),
);
const OWN_BUCKET = new RegExp(`^[a-z0-9-]*${UUID.source}$`);
/** The reference driver's: a random UUID, for each CreateVolume another one. */
const REFERENCE_BUCKET =
  /^csi-s3-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const OWN_PREFIX = new RegExp(`(^|/)${UUID.source}/$`);
/** The namespace of our name-based UUIDs: any constant would do, as long as it stays the same. */
const NAMESPACE = Buffer.from("b0a36c2c5f6d4c0f9d0e5a3b7c1d2e4f", "hex");

/**
 * For a bucket of its own that is the bucket's name, as users know it; where the driver must know
 * more: `bucket@region`, `bucket/prefix/`, `bucket/prefix/#delete`.
 */
export function volumeHandleOf({ bucket, region, prefix, onDelete }: VolumePlace): string {
  const at = region === undefined ? "" : `@${region}`;
  if (prefix === "") return `${bucket}${at}`;
  return `${bucket}${at}/${prefix}${onDelete === "delete" ? "#delete" : ""}`;
}

/** The handle of a volume that the reference driver has made: the name of its bucket, always. */
export function isReferenceHandle(handle: string): boolean {
  return REFERENCE_BUCKET.test(handle);
}

/**
 * Undefined for a handle that no CreateVolume of ours or of the reference driver has given: nothing
 * is done about those.
 */
export function parseVolumeHandle(handle: string): VolumePlace | undefined {
  if (isReferenceHandle(handle)) {
    return { bucket: handle, region: undefined, prefix: "", onDelete: "keepIfNotEmpty" };
  }
  const { bucket = "", region, prefix = "", emptied } = HANDLE.exec(handle)?.groups ?? {};
  const isOwn = prefix === "" ? OWN_BUCKET.test(bucket) : OWN_PREFIX.test(prefix);
  if (!isOwn || (prefix === "" && emptied !== undefined)) return undefined;
  if (prefix === "") return { bucket, region, prefix, onDelete: "keepIfNotEmpty" };
  return { bucket, region, prefix, onDelete: emptied === undefined ? "retain" : "delete" };
}

/** Objects that stay when their volume goes. */
export function isRetained({ prefix, onDelete }: VolumePlace): boolean {
  return prefix !== "" && onDelete === "retain";
}

/** Whether S3 is asked anything when the volume is deleted. */
export function needsKeys(handle: string): boolean {
  const place = parseVolumeHandle(handle);
  return place !== undefined && !isRetained(place);
}

/** Anybody can write a handle; that it holds the volume's own UUID follows from its name alone. */
export function isHandleOf(handle: string, name: string): boolean {
  const { bucket, prefix } = parseVolumeHandle(handle) ?? { bucket: "", prefix: "" };
  const uuid = volumeUuidOf(name);
  return prefix === "" ? bucket.endsWith(uuid) : `/${prefix}`.endsWith(`/${uuid}/`);
}

/** UUID version 5 of a CreateVolume name: whoever asks again gets the same one. */
export function volumeUuidOf(name: string): string {
  const bytes = createHash("sha1").update(NAMESPACE).update(name).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [[0, 8], [8, 12], [12, 16], [16, 20], [20]].map(([a, b]) => hex.slice(a, b)).join("-");
}
