import { Failure } from "../base/failure.ts";
import type { CreateVolumeRequest, VolumeCapability } from "../csi/gen/csi_pb.ts";
import { parseCacheVolume } from "../volume/cache-volume.ts";
import { isMountpointPodClaim } from "../volume/names.ts";
import type { VolumePlace } from "../volume/volume-handle.ts";
import { whyUnsupported } from "./capabilities.ts";
import { parseClassParameters, placeOf } from "./class-parameters.ts";
import type { ClaimFacts, ClassParameters } from "./class-parameters.ts";
import { wrongParameter } from "./parameter-failure.ts";

/** CreateVolume, checked. */
export interface VolumeWish {
  readonly name: string;
  readonly capacity: CapacityWish;
  readonly parameters: ClassParameters;
  readonly place: VolumePlace;
  /** Where it must be usable; empty: no constraint. */
  readonly topology: readonly Readonly<Record<string, string>>[];
}

/** In bytes; 0 is no bound. S3 holds nobody to it: it is only what was asked for. */
export interface CapacityWish {
  readonly required: bigint;
  readonly limit: bigint;
}

const NAME_BYTES_MAX = 128;
const CAPACITY_DEFAULT = 1024n ** 3n;

export function parseCreateRequest(request: CreateVolumeRequest): VolumeWish {
  const { name, volumeCapabilities, volumeContentSource, capacityRange } = request;
  if (name === "") throw new Failure("invalid", "Volume name not provided");
  if (Buffer.byteLength(name) > NAME_BYTES_MAX) {
    throw new Failure("invalid", `Volume name is longer than ${NAME_BYTES_MAX} bytes: ${name}`);
  }
  const parameters = parseClassParameters(request.parameters);
  checkCapabilities(volumeCapabilities, parameters);
  if (volumeContentSource !== undefined) {
    throw new Failure("invalid", "Volume content source not supported: S3 volumes begin empty");
  }
  if (Object.keys(request.mutableParameters).length > 0) {
    const names = Object.keys(request.mutableParameters).join(", ");
    throw new Failure("invalid", `VolumeAttributesClass not supported: ${names}`);
  }
  return {
    name,
    capacity: parseCapacity(capacityRange),
    parameters,
    place: placeOf(name, parameters),
    topology: (request.accessibilityRequirements?.requisite ?? []).map((one) => one.segments),
  };
}

function checkCapabilities(
  capabilities: readonly VolumeCapability[],
  { bucketName, podAttributes }: ClassParameters,
): void {
  if (capabilities.length === 0) throw new Failure("invalid", "Volume capabilities not provided");
  const cache = parseCacheVolume(podAttributes);
  const ofPrefix = bucketName !== undefined;
  for (const capability of capabilities) {
    const problem = whyUnsupported(capability, ofPrefix, cache);
    if (problem === undefined) continue;
    // A mount option may be right in itself, and wrong beside a parameter.
    if (whyUnsupported(capability, ofPrefix) === undefined) {
      throw wrongParameter("cache", podAttributes["cache"], problem);
    }
    if (whyUnsupported(capability, false) === undefined) {
      throw wrongParameter("bucketName", bucketName, problem);
    }
    throw new Failure("invalid", problem);
  }
}

/**
 * The cache of a Mountpoint Pod on a volume of this driver would need a Mountpoint Pod of its own,
 * whose cache would be the next such volume: buckets, PVs and pods without end.
 */
export function refuseMountpointPodClaim(
  { pvcNamespace, pvcName = "" }: ClaimFacts,
  mountpointNamespace: string,
): void {
  if (pvcNamespace !== mountpointNamespace || !isMountpointPodClaim(pvcName)) return;
  throw new Failure(
    "refused",
    `claim ${pvcNamespace}/${pvcName}: a Mountpoint Pod can't have its cache on a volume of this ` +
      "driver; choose another StorageClass in cacheEphemeralStorageClassName",
  );
}

/** What the volume is said to hold. */
export function capacityOf({ required, limit }: CapacityWish): bigint {
  if (required !== 0n) return required;
  return limit === 0n ? CAPACITY_DEFAULT : limit;
}

function parseCapacity(
  range: { readonly requiredBytes: bigint; readonly limitBytes: bigint } | undefined,
): CapacityWish {
  const { requiredBytes: required = 0n, limitBytes: limit = 0n } = range ?? {};
  if (required < 0n || limit < 0n || (limit !== 0n && limit < required)) {
    throw new Failure("invalid", `capacity_range ${required} to ${limit} bytes is not a range`);
  }
  return { required, limit };
}
