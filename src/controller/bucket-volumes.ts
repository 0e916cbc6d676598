import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import { KeyedLock } from "../base/keyed-lock.ts";
import type { Log } from "../base/log.ts";
import type {
  CreateVolumeRequest,
  DeleteVolumeRequest,
  ValidateVolumeCapabilitiesRequest,
} from "../csi/gen/csi_pb.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { isRetained, parseVolumeHandle, volumeHandleOf } from "../volume/volume-handle.ts";
import type { VolumePlace } from "../volume/volume-handle.ts";
import type { Buckets, NoTags, Tags } from "./buckets.ts";
import { whyUnsupported } from "./capabilities.ts";
import { capacityOf, parseCreateRequest } from "./create-request.ts";
import type { VolumeWish } from "./create-request.ts";
import { keysOfSecret } from "./keys.ts";
import type { Keys } from "./keys.ts";

export interface BucketVolumesOptions {
  /** The S3 server as the holder of these keys sees it. */
  readonly open: (keys: Keys, region: string) => Promise<Buckets>;
  /** Asked each time: they may have been rotated. */
  readonly driverKeys: () => Keys;
  readonly region: string;
  readonly log: Log;
}

export interface CreatedVolume {
  readonly volumeId: string;
  readonly capacityBytes: bigint;
  readonly volumeContext: Record<string, string>;
  readonly topology: readonly Readonly<Record<string, string>>[];
}

/** `kept`: what is left on the S3 server, and why; for people. */
export interface DeletedVolume {
  readonly kept: string | undefined;
}

/** `name`: as create() got it. A bucket that is tagged as another's is left alone. */
export interface DiscardRequest {
  readonly volumeId: string;
  readonly name: string;
  readonly secrets: Record<string, string>;
}

type Secrets = Readonly<Record<string, string>>;

export const TAG = {
  volume: `${DRIVER_NAME}/volume`,
  capacity: `${DRIVER_NAME}/capacity-bytes`,
  /** Only where the class names one. */
  region: `${DRIVER_NAME}/region`,
  pvcName: "kubernetes.io/created-for/pvc/name",
  pvcNamespace: "kubernetes.io/created-for/pvc/namespace",
  pvName: "kubernetes.io/created-for/pv/name",
} as const;

const FINAL: ReadonlySet<FailureKind> = new Set(["absent", "denied", "invalid", "refused"]);

/** Volumes that are buckets, or prefixes in one. Each call may be repeated as often as wished. */
export class BucketVolumes {
  readonly #options: BucketVolumesOptions;
  readonly #locks = new KeyedLock();

  constructor(options: BucketVolumesOptions) {
    this.#options = options;
  }

  async create(request: CreateVolumeRequest, signal: AbortSignal): Promise<CreatedVolume> {
    const wish = parseCreateRequest(request);
    const { place, parameters } = wish;
    using _lock = this.#locks.hold(volumeHandleOf(place));
    const keys = this.#keysFor(request.secrets);
    const buckets = await this.#buckets(keys, place);
    if (place.prefix === "") await this.#makeBucket(wish, buckets, signal);
    else await requireBucket(place.bucket, buckets, signal);
    const fromSecret = Object.keys(request.secrets).length > 0;
    const region = place.region ?? keys.region;
    return {
      volumeId: volumeHandleOf(place),
      capacityBytes: capacityOf(wish.capacity),
      volumeContext: {
        bucketName: place.bucket,
        dynamicProvisioning: "true",
        authenticationSource: parameters.authenticationSource ?? (fromSecret ? "secret" : "driver"),
        ...(place.prefix === "" ? {} : { prefix: place.prefix }),
        ...(region === undefined ? {} : { region }),
      },
      topology: wish.topology,
    };
  }

  async delete(
    { volumeId, secrets }: Pick<DeleteVolumeRequest, "volumeId" | "secrets">,
    signal: AbortSignal,
  ): Promise<DeletedVolume> {
    if (volumeId === "") throw new Failure("invalid", "Volume ID not provided");
    const place = parseVolumeHandle(volumeId);
    if (place === undefined) {
      // A static volume's: its bucket is not ours to delete.
      this.#options.log.warn({ volume: volumeId }, "not a volume that this driver has made");
      return { kept: undefined };
    }
    using _lock = this.#locks.hold(volumeId);
    const kept = await this.#remove(place, secrets, signal);
    this.#options.log.info({ volume: volumeId, kept }, "volume deleted");
    return { kept };
  }

  /** Where create() would put it. */
  handleOf(request: CreateVolumeRequest): string {
    return volumeHandleOf(parseCreateRequest(request).place);
  }

  /** Takes back what an unfinished create() of this name may have left there. */
  async discard(
    { volumeId, name, secrets }: DiscardRequest,
    signal: AbortSignal,
  ): Promise<DeletedVolume> {
    const place = parseVolumeHandle(volumeId);
    if (place === undefined || place.prefix !== "") return { kept: undefined };
    const buckets = await this.#buckets(this.#keysFor(secrets), place);
    if (!(await this.#mayBeFor(name, place.bucket, buckets, signal))) return { kept: undefined };
    return this.delete({ volumeId, secrets }, signal);
  }

  /** False for a bucket that is gone, and for another's: it was there before, and made us fail. */
  async #mayBeFor(
    name: string,
    bucket: string,
    buckets: Buckets,
    signal: AbortSignal,
  ): Promise<boolean> {
    try {
      const owner = volumeIn(await buckets.tags(bucket, signal));
      return owner === undefined ? (await buckets.owns(bucket, signal)) !== "no" : owner === name;
    } catch (error) {
      if (error instanceof Failure && error.kind === "absent") return false;
      throw error;
    }
  }

  /** Why the volume can't be used so; undefined when it can. */
  async validate(
    request: ValidateVolumeCapabilitiesRequest,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { volumeId, volumeCapabilities, volumeContext, secrets } = request;
    if (volumeId === "") throw new Failure("invalid", "Volume ID not provided");
    if (volumeCapabilities.length === 0) {
      throw new Failure("invalid", "Volume capabilities not provided");
    }
    const place = parseVolumeHandle(volumeId);
    const isThere = place !== undefined && (await this.#exists(place, secrets, signal));
    if (!isThere) throw new Failure("absent", `there is no volume ${volumeId}`);
    const { bucketName = place.bucket } = volumeContext;
    if (bucketName !== place.bucket) {
      return `volume ${volumeId} is in bucket ${place.bucket}, not in ${bucketName}`;
    }
    const problems = volumeCapabilities.map((one) => whyUnsupported(one, place.prefix !== ""));
    return problems.find((problem) => problem !== undefined);
  }

  async #makeBucket(wish: VolumeWish, buckets: Buckets, signal: AbortSignal): Promise<void> {
    const { bucket } = wish.place;
    const made = await buckets.create(bucket, signal);
    try {
      const tags = await buckets.tags(bucket, signal);
      if (made === "taken") await requireOwn(wish, tags, buckets, signal);
      if (typeof tags === "object" && volumeIn(tags) !== undefined) return checkSame(wish, tags);
      const done =
        typeof tags === "object"
          ? await buckets.setTags(bucket, { ...tags, ...tagsOf(wish) }, signal)
          : tags;
      if (done === "forbidden") {
        this.#options.log.warn({ bucket }, "these keys may not tag buckets: it works without");
      }
    } catch (error) {
      throw unfinished(error);
    }
  }

  async #remove(
    place: VolumePlace,
    secrets: Secrets,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { bucket, prefix } = place;
    if (isRetained(place)) {
      return `the objects below ${prefix} in bucket ${bucket} are kept: onDelete is retain`;
    }
    const buckets = await this.#buckets(this.#keysFor(secrets), place);
    if (prefix !== "") {
      await buckets.empty(bucket, prefix, signal);
      return undefined;
    }
    const done = await buckets.delete(bucket, signal);
    return done === "not-empty" ? `bucket ${bucket} is kept: it is not empty` : undefined;
  }

  async #exists(place: VolumePlace, secrets: Secrets, signal: AbortSignal): Promise<boolean> {
    const buckets = await this.#buckets(this.#keysFor(secrets), place);
    return buckets.exists(place.bucket, signal);
  }

  #keysFor(secrets: Secrets): Keys {
    const isGiven = Object.keys(secrets).length > 0;
    return isGiven ? keysOfSecret(secrets) : this.#options.driverKeys();
  }

  #buckets(keys: Keys, place: VolumePlace): Promise<Buckets> {
    return this.#options.open(keys, place.region ?? keys.region ?? this.#options.region);
  }
}

/** The server says "exists", not "yours"; some do so of one's own, from a lost answer. */
async function requireOwn(
  { name, place: { bucket } }: VolumeWish,
  tags: Tags | NoTags,
  buckets: Buckets,
  signal: AbortSignal,
): Promise<void> {
  const owner = volumeIn(tags);
  if (owner === name) return;
  const owns = owner === undefined ? await buckets.owns(bucket, signal) : "no";
  if (owns === "yes" && (await buckets.isEmpty(bucket, signal))) return;
  const whose = {
    yes: "holds objects, yet no tag of a volume",
    no: "belongs to someone else",
    unknown: "may be anybody's: the keys lack s3:ListAllMyBuckets, which would tell",
  };
  throw new Failure("conflict", `bucket ${bucket} exists and ${whose[owns]}`);
}

/** The volume that a bucket was made for, by its tags. */
function volumeIn(tags: Tags | NoTags): string | undefined {
  return typeof tags === "object" ? tags[TAG.volume] : undefined;
}

/** The bucket is there by now: whoever called must not take this for a no, and forget about it. */
function unfinished(error: unknown): unknown {
  const isFinal = error instanceof Failure && FINAL.has(error.kind);
  return isFinal ? new Failure("remote", error.message, error) : error;
}

async function requireBucket(bucket: string, buckets: Buckets, signal: AbortSignal): Promise<void> {
  if (await buckets.exists(bucket, signal)) return;
  throw new Failure(
    "refused",
    `StorageClass parameter bucketName is "${bucket}": there is no such bucket; the driver makes ` +
      "none for prefix volumes",
  );
}

function tagsOf({ name, capacity, place, parameters: { claim } }: VolumeWish): Tags {
  const facts = (["pvcName", "pvcNamespace", "pvName"] as const).flatMap((fact) => {
    const value = claim[fact];
    return value === undefined ? [] : [[TAG[fact], value] as const];
  });
  return {
    [TAG.volume]: name,
    [TAG.capacity]: String(capacityOf(capacity)),
    ...(place.region === undefined ? {} : { [TAG.region]: place.region }),
    ...Object.fromEntries(facts),
  };
}

/** The bucket carries the mark of a volume: it must be this one, as it is asked for now. */
function checkSame({ name, capacity, place }: VolumeWish, tags: Tags): void {
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
