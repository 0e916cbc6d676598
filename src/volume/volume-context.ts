import { Failure } from "../base/failure.ts";
import { parseCacheVolume } from "./cache-volume.ts";
import type { CacheVolume } from "./cache-volume.ts";
import { isReferenceHandle } from "./volume-handle.ts";
import { parseMountpointEnv } from "./mountpoint-env.ts";

export const AUTHENTICATION_SOURCES = ["driver", "secret"] as const;
export type AuthenticationSource = (typeof AUTHENTICATION_SOURCES)[number];

/** A PV's volumeAttributes, checked. */
export interface VolumeContext {
  readonly bucketName: string;
  readonly authenticationSource: AuthenticationSource;
  readonly cache?: CacheVolume;
  /** The proxies that the volume asks for; absent for none. */
  readonly env?: Readonly<Record<string, string>>;
  /** The part of the bucket that is the volume, with a `/` at its end; empty: all of it. */
  readonly prefix: string;
  /** Where the bucket is, if not where the driver's settings say. */
  readonly region: string | undefined;
}

/** Wide enough for the buckets of old S3 servers; narrow enough that none is read as an option. */
const BUCKET_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{2,254}$/;

/** Attributes that decide whose data is mounted, with whose keys. */
const WATCHED_SPELLINGS: ReadonlyMap<string, string> = new Map(
  ["bucketName", "authenticationSource"].map((name) => [bareOf(name), name]),
);
const REGION = /^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/;

/** Unknown attributes are somebody else's: kubelet and provisioner add their own. */
export function parseVolumeContext(
  attributes: Readonly<Record<string, string>>,
  /** There is a Secret to mount with. */
  bringsSecret = false,
  volumeHandle = "",
): VolumeContext {
  for (const name of Object.keys(attributes)) checkSpelling(name);
  const cache = parseCacheVolume(attributes);
  const env = parseMountpointEnv(attributes);
  const authenticationSource = parseAuthenticationSource(attributes["authenticationSource"]);
  // The reference driver mounted such volumes with its own keys, which wrote all that is in them.
  const isOurs = attributes["dynamicProvisioning"] === "true" && !isReferenceHandle(volumeHandle);
  if (isOurs && bringsSecret && authenticationSource === "driver") throw secretUnheard();
  return {
    bucketName: parseBucketName(attributes["bucketName"]),
    authenticationSource,
    prefix: parsePrefix(attributes["prefix"]),
    region: parseRegion(attributes["region"]),
    ...(cache && { cache }),
    ...(Object.keys(env).length > 0 && { env }),
  };
}

/**
 * The official provisioner puts a class' node-publish Secret into the PV and does not tell the
 * driver, which then records its own keys. Whoever named a Secret did not mean those.
 */
function secretUnheard(): Failure {
  return new Failure(
    "invalid",
    'volumeAttributes.authenticationSource is "driver", yet the volume has a ' +
      "nodePublishSecretRef: its StorageClass names " +
      "csi.storage.k8s.io/node-publish-secret-name without " +
      "csi.storage.k8s.io/provisioner-secret-name; name both or none, and make the claim anew",
  );
}

/** An authenticationsource that is ignored would mount with the driver's keys, and not say so. */
function checkSpelling(name: string): void {
  const meant = WATCHED_SPELLINGS.get(bareOf(name)) ?? name;
  if (meant === name) return;
  throw new Failure("invalid", `volumeAttributes.${name} is not known: write ${meant}`);
}

/** A name without what people get wrong in it: bucket-name, bucketname and bucketName are one. */
export function bareOf(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, "");
}

export function isBucketName(value: string): boolean {
  return BUCKET_NAME.test(value);
}

export function isRegion(value: string): boolean {
  return REGION.test(value);
}

function parseBucketName(value: string | undefined): string {
  if (value === undefined || value === "") {
    throw new Failure("invalid", "Bucket name not provided: set volumeAttributes.bucketName");
  }
  if (isBucketName(value)) return value;
  throw new Failure(
    "invalid",
    `volumeAttributes.bucketName is ${JSON.stringify(value)}: a bucket's name has 3 to 255 ` +
      "letters, digits, dots, hyphens or underscores and begins with a letter or digit",
  );
}

/** Unset is driver. Empty is not unset: whoever wrote it meant something. */
function parseAuthenticationSource(value: string | undefined): AuthenticationSource {
  if (value === undefined) return "driver";
  const known = AUTHENTICATION_SOURCES.find((source) => source === value);
  if (known !== undefined) return known;
  throw new Failure(
    "invalid",
    `volumeAttributes.authenticationSource is ${JSON.stringify(value)}: use "driver" or "secret"`,
  );
}

function parsePrefix(value = ""): string {
  if (value === "" || (value.endsWith("/") && !value.startsWith("/"))) return value;
  throw new Failure(
    "invalid",
    `volumeAttributes.prefix is ${JSON.stringify(value)}: it ends with / and does not begin so`,
  );
}

function parseRegion(value: string | undefined): string | undefined {
  if (value === undefined || isRegion(value)) return value;
  throw new Failure(
    "invalid",
    `volumeAttributes.region is ${JSON.stringify(value)}: letters, digits and hyphens`,
  );
}
