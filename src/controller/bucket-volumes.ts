import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import { KeyedLock } from "../base/keyed-lock.ts";
import type { Log } from "../base/log.ts";
import type {
  CreateVolumeRequest,
  DeleteVolumeRequest,
  ValidateVolumeCapabilitiesRequest,
} from "../csi/gen/csi_pb.ts";
import { MOUNTPOINT_NAMESPACE_DEFAULT } from "../volume/names.ts";
import {
  isHandleOf,
  isRetained,
  parseVolumeHandle,
  volumeHandleOf,
} from "../volume/volume-handle.ts";
import type { OnDelete, VolumePlace } from "../volume/volume-handle.ts";
import type { FindUses } from "../volume/volume-use.ts";
import { removeBucket, unfinished } from "./bucket-removal.ts";
import { NoSuchBucketFailure } from "./buckets.ts";
import type { Buckets, EmptyingProgress, Tags, Unavailable } from "./buckets.ts";
import { whyUnsupported } from "./capabilities.ts";
import { capacityOf, parseCreateRequest, refuseMountpointPodClaim } from "./create-request.ts";
import type { VolumeWish } from "./create-request.ts";
import { permissionFor } from "./deletion-guard.ts";
import { keysOfSecret } from "./keys.ts";
import type { Keys } from "./keys.ts";
import { unusableParameters } from "./unusable-parameters.ts";
import { checkSame, onDeleteIn, tagsFor, volumeIn } from "./volume-tags.ts";

export interface BucketVolumesOptions {
  /** The S3 server as the holder of these keys sees it. */
  readonly open: (keys: Keys, region: string) => Promise<Buckets>;
  /** Asked each time: they may have been rotated. */
  readonly driverKeys: () => Keys;
  readonly region: string;
  readonly log: Log;
  /** Undefined without access to the API server. */
  readonly findUses?: FindUses | undefined;
  /** Where Mountpoint Pods live: claims for their caches get no volume. Default: mount-s3. */
  readonly mountpointNamespace?: string;
  /** How long one call deletes objects before it answers that more are left. */
  readonly emptyingLimitMs?: number;
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

export interface DeleteRequest extends Pick<DeleteVolumeRequest, "volumeId" | "secrets"> {
  /** The PV's, which is the name that create() got. A CSI client does not tell it. */
  readonly name?: string;
}

/** `name`: as create() got it. A bucket that is tagged as another's is left alone. */
export interface DiscardRequest {
  readonly volumeId: string;
  readonly name: string;
  readonly secrets: Record<string, string>;
}

type Secrets = Readonly<Record<string, string>>;

interface Removal {
  readonly volumeId: string;
  readonly place: VolumePlace;
  /** Else objects are kept, whatever the choice. */
  readonly isVouchedFor: boolean;
  readonly secrets: Secrets;
}

const FINAL: ReadonlySet<FailureKind> = new Set(["absent", "denied", "invalid", "refused"]);
const UNVOUCHED =
  "objects are deleted only for a PV that is Released, and there is none to be seen";
/** Well below the minute that a call has, so that what is done is told before it is cut off. */
const EMPTYING_LIMIT_MS = 20_000;

/** Volumes that are buckets, or prefixes in one. Each call may be repeated as often as wished. */
export class BucketVolumes {
  readonly #options: BucketVolumesOptions;
  readonly #locks = new KeyedLock();
  /** By volume handle: of volumes that are being emptied call by call. */
  readonly #progress = new Map<string, EmptyingProgress>();

  constructor(options: BucketVolumesOptions) {
    this.#options = options;
  }

  async create(request: CreateVolumeRequest, signal: AbortSignal): Promise<CreatedVolume> {
    const wish = this.#parse(request);
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
        ...parameters.podAttributes,
      },
      topology: wish.topology,
    };
  }

  async delete(request: DeleteRequest, signal: AbortSignal): Promise<DeletedVolume> {
    const { volumeId, secrets, name } = request;
    if (volumeId === "") throw new Failure("invalid", "Volume ID not provided");
    const place = parseVolumeHandle(volumeId);
    if (place === undefined) {
      // The bucket may be a static volume's, or another driver's: it is not ours to delete.
      const kept = `nothing was deleted: volume handle ${volumeId} is none that this driver gives`;
      this.#options.log.warn({ volumeId }, "unknown volume handle");
      return { kept };
    }
    using _lock = this.#locks.hold(volumeId);
    const deletion = { volumeId, place, pv: name };
    const permission = await permissionFor(deletion, this.#options.findUses, signal);
    if (permission.may === "nothing") {
      const { why } = permission;
      this.#options.log.warn({ volumeId, pv: name, why }, "volume kept");
      return { kept: why };
    }
    const isVouchedFor = permission.may === "delete";
    const kept = await this.#remove({ volumeId, place, isVouchedFor, secrets }, signal);
    this.#options.log.info({ volumeId, kept }, "volume deleted");
    return { kept };
  }

  async #remove(removal: Removal, signal: AbortSignal): Promise<string | undefined> {
    const { volumeId, place } = removal;
    const progress = this.#progress.get(volumeId) ?? {};
    this.#progress.set(volumeId, progress);
    try {
      return place.prefix === ""
        ? await this.#removeVolumeBucket(removal, progress, signal)
        : await this.#removePrefix(removal, progress, signal);
    } finally {
      if (Object.keys(progress).length === 0) this.#progress.delete(volumeId);
    }
  }

  /** The parameters for which create() would refuse the request, and why. */
  unusableParameters(request: CreateVolumeRequest): ReadonlyMap<string, string> {
    return unusableParameters(request);
  }

  /** Where create() would put it. */
  handleOf(request: CreateVolumeRequest): string {
    return volumeHandleOf(this.#parse(request).place);
  }

  #parse(request: CreateVolumeRequest): VolumeWish {
    const { mountpointNamespace = MOUNTPOINT_NAMESPACE_DEFAULT } = this.#options;
    const wish = parseCreateRequest(request);
    refuseMountpointPodClaim(wish.parameters.claim, mountpointNamespace);
    return wish;
  }

  /** Takes back what an unfinished create() of this name may have left there. */
  async discard(
    { volumeId, name, secrets }: DiscardRequest,
    signal: AbortSignal,
  ): Promise<DeletedVolume> {
    const place = parseVolumeHandle(volumeId);
    if (place === undefined || place.prefix !== "") return { kept: undefined };
    using _lock = this.#locks.hold(volumeId);
    const { bucket } = place;
    const buckets = await this.#buckets(this.#keysFor(secrets), place);
    if (!(await this.#mayBeFor(name, bucket, buckets, signal))) return { kept: undefined };
    // No pod has had it: whatever is in there is not from the claim, and is never deleted.
    const removal = { bucket, onDelete: "keepIfNotEmpty", deadlineMs: 0, progress: {} } as const;
    return { kept: await removeBucket(removal, buckets, signal) };
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
      if (error instanceof NoSuchBucketFailure) return false;
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
      if (typeof tags === "object" && volumeIn(tags) !== undefined) {
        checkSame(wish, tags);
        if (onDeleteIn(tags) === wish.parameters.onDelete) return;
      }
      await this.#mark(wish, tags, buckets, signal);
    } catch (error) {
      throw notFinal(error);
    }
  }

  /** Tags the bucket as the volume's. Only an empty one is ever marked as one to be emptied. */
  async #mark(
    wish: VolumeWish,
    tags: Tags | Unavailable,
    buckets: Buckets,
    signal: AbortSignal,
  ): Promise<void> {
    const { bucket } = wish.place;
    const { onDelete } = wish.parameters;
    if (onDelete === "delete") await requireEmpty(bucket, buckets, signal);
    const done =
      typeof tags === "object" ? await buckets.setTags(bucket, tagsFor(wish, tags), signal) : tags;
    if (done === "set") return;
    if (onDelete !== "keepIfNotEmpty") throw unrecorded(onDelete, done);
    if (done === "forbidden") {
      this.#options.log.warn({ bucket }, "these keys may not tag buckets: it works without");
    }
  }

  async #removePrefix(
    { place, isVouchedFor, secrets }: Removal,
    progress: EmptyingProgress,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { bucket, prefix } = place;
    const why = isRetained(place) ? "onDelete is retain" : isVouchedFor ? undefined : UNVOUCHED;
    if (why !== undefined)
      return `the objects below ${prefix} in bucket ${bucket} are kept: ${why}`;
    const buckets = await this.#buckets(this.#keysFor(secrets), place);
    // Versions are the undo of the bucket's owner, who is not the driver.
    const deadlineMs = this.#deadlineMs();
    const request = { bucket, prefix, versions: false, deadlineMs, progress };
    const done = await buckets.empty(request, signal);
    if (done === "more") throw unfinished(`prefix ${prefix} in bucket ${bucket}`);
    return undefined;
  }

  /** By the bucket's own tags: a handle, a PV or a class that is written anew changes nothing. */
  async #removeVolumeBucket(
    { place, isVouchedFor, secrets }: Removal,
    progress: EmptyingProgress,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { bucket } = place;
    const buckets = await this.#buckets(this.#keysFor(secrets), place);
    try {
      const tags = await buckets.tags(bucket, signal);
      const owner = volumeIn(tags);
      if (owner !== undefined && !isHandleOf(bucket, owner)) {
        return `bucket ${bucket} is kept: by its tags it is the volume ${owner}, which it is not`;
      }
      const chosen = onDeleteIn(tags);
      const isCautious = chosen === "delete" && !isVouchedFor;
      const onDelete = isCautious ? "keepIfNotEmpty" : chosen;
      const removal = { bucket, onDelete, deadlineMs: this.#deadlineMs(), progress };
      const kept = await removeBucket(removal, buckets, signal);
      return kept !== undefined && isCautious ? `${kept}; ${UNVOUCHED}` : kept;
    } catch (error) {
      if (error instanceof NoSuchBucketFailure) return undefined;
      throw error;
    }
  }

  #deadlineMs(): number {
    return performance.now() + (this.#options.emptyingLimitMs ?? EMPTYING_LIMIT_MS);
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
  tags: Tags | Unavailable,
  buckets: Buckets,
  signal: AbortSignal,
): Promise<void> {
  const owner = volumeIn(tags);
  if (owner === name) return;
  const owns = owner === undefined ? await buckets.owns(bucket, signal) : "no";
  const contents = owns === "yes" ? await buckets.contents(bucket, signal) : undefined;
  if (contents === "nothing" || contents === "no-objects") return;
  const whose = {
    yes:
      contents === "unknown"
        ? "may hold objects: the keys lack s3:ListBucket, which would tell"
        : "holds objects, yet no tag of a volume",
    no: "belongs to someone else",
    unknown: "may be anybody's: the keys lack s3:ListAllMyBuckets, which would tell",
  };
  throw new Failure("conflict", `bucket ${bucket} exists and ${whose[owns]}`);
}

async function requireEmpty(bucket: string, buckets: Buckets, signal: AbortSignal): Promise<void> {
  const contents = await buckets.contents(bucket, signal);
  if (contents === "nothing") return;
  if (contents === "unknown" || contents === "no-objects") {
    const rights = "s3:ListBucket or s3:ListBucketVersions";
    const why = `the keys lack ${rights}, without which no bucket can be emptied`;
    throw new Failure("refused", `StorageClass parameter onDelete is "delete": ${why}`);
  }
  const why = "with onDelete delete a volume begins with an empty bucket";
  throw new Failure("conflict", `bucket ${bucket} exists and is not empty: ${why}`);
}

/** The bucket is there by now: whoever called must not take this for a no, and forget about it. */
function notFinal(error: unknown): unknown {
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

/** DeleteVolume gets a handle and nothing else: without the tag it would not know the choice. */
function unrecorded(onDelete: OnDelete, why: Unavailable): Failure {
  const reason =
    why === "unsupported"
      ? "which this S3 server does not have"
      : "and the keys lack s3:GetBucketTagging or s3:PutBucketTagging";
  return new Failure(
    "refused",
    `StorageClass parameter onDelete is "${onDelete}": it is kept in the bucket's tags, ${reason}`,
  );
}
