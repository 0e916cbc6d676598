import { Failure } from "../base/failure.ts";
import type { CreateVolumeRequest, VolumeCapability } from "../csi/gen/csi_pb.ts";
import type { VolumePlace } from "../volume/volume-handle.ts";
import { whyUnsupported } from "./capabilities.ts";
import { parseClassParameters, placeOf } from "./class-parameters.ts";
import type { ClassParameters } from "./class-parameters.ts";

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
  checkCapabilities(volumeCapabilities, parameters.bucketName !== undefined);
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

export function checkCapabilities(
  capabilities: readonly VolumeCapability[],
  ofPrefix: boolean,
): void {
  if (capabilities.length === 0) throw new Failure("invalid", "Volume capabilities not provided");
  for (const capability of capabilities) {
    const problem = whyUnsupported(capability, ofPrefix);
    if (problem !== undefined) throw new Failure("invalid", problem);
  }
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
