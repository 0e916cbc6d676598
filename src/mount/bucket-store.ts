import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { OWNER_HEADER } from "../s3/bucket-owner.ts";
import { CaBundle } from "../s3/ca-bundle.ts";
import type { CredentialSource } from "../s3/credentials.ts";
import type { ObjectReader, ObjectStore } from "../s3/object-store.ts";
import { contentTypeOf } from "../s3/content-type.ts";
import { checkBinding, localBindingOf } from "../s3/local-binding.ts";
import { locate } from "../s3/s3-location.ts";
import type { S3Location } from "../s3/s3-location.ts";
import { S3Store } from "../s3/s3-store.ts";
import { S3Transport } from "../s3/s3-transport.ts";
import type { S3Route } from "../s3/s3-transport.ts";
import { CHECKSUM_KINDS } from "../s3/upload-checksum.ts";
import type { ChecksumKind } from "../s3/upload-checksum.ts";
import type { OpenCache } from "./bucket-cache.ts";
import type { CacheOptions } from "./limit-options.ts";
import type { MountOptions } from "./mount-options.ts";

const CONNECTIONS_MAX = 64;
const CONNECT_TIMEOUT_MS = 3_000;
const SILENCE_LIMIT_MS = 20_000;
const PROBE_TIMEOUT_MS = 5_000;
/** A new mount waits so long for a large cache; one that is resumed has applications that wait. */
const SCAN_WAIT_MS = 1_000;

export interface OpenedBucket {
  readonly store: ObjectStore;
  /** The same bucket, or what of it is on a disk here. */
  readonly reader: ObjectReader;
}

/**
 * The bucket that the options name, asked once whether it will serve us if that is not known. If it
 * is, nothing here fails that may be in order again soon: the mount has applications and data.
 */
export async function openBucket(
  options: MountOptions,
  credentials: CredentialSource | undefined,
  { isKnownToWork, log }: { readonly isKnownToWork: boolean; readonly log: Log },
): Promise<OpenedBucket> {
  if (options.signs && credentials === undefined) {
    throw new Failure(
      "denied",
      "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use --no-sign-request",
    );
  }
  const route = routeOf(options);
  if (!isKnownToWork) checkBinding(options.bind);
  const cache = options.cache && (await openCache(options.cache, options, isKnownToWork, log));
  const transport = new S3Transport({
    ...route,
    reroute: options.regionIsFixed ? undefined : (region) => routeOf({ ...options, region }),
    binding: options.bind.length === 0 ? undefined : localBindingOf(options.bind),
    credentials: options.signs ? credentials : undefined,
    ca: caBundleOf(options, isKnownToWork, log),
    userAgent: `${options.userAgentPrefix} s3csi`.trim(),
    connectionsMax: CONNECTIONS_MAX,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    silenceLimitMs: SILENCE_LIMIT_MS,
    signsPayload: options.checksum === "sha256",
    extraHeaders: options.requestHeaders,
    log,
  });
  const policy = { attemptsMax: options.attemptsMax, windowMs: options.outageLimitMs };
  const store = new S3Store(transport, policy, {
    objectHeaders: options.objectHeaders,
    checksum: checksumOf(options),
    contentTypeOf: options.infersContentType ? contentTypeOf : undefined,
    log,
  });
  try {
    if (!isKnownToWork) {
      await store.probe(options.engine.prefix, PROBE_TIMEOUT_MS);
      await checkOwner(store, options);
      await cache?.scannedWithin(SCAN_WAIT_MS);
    }
    return { store, reader: cache?.readerOf(store) ?? store };
  } catch (error) {
    store.close();
    await cache?.close();
    throw probeFailure(error, options);
  }
}

/** The option promises more than some servers keep: on these it is refused, not ignored. */
async function checkOwner(store: S3Store, options: MountOptions): Promise<void> {
  const owner = options.requestHeaders[OWNER_HEADER];
  if (owner === undefined) return;
  if (await store.checksOwner(options.engine.prefix, owner, PROBE_TIMEOUT_MS)) return;
  throw new Failure(
    "refused",
    `--expected-bucket-owner ${owner}: this S3 server does not check the owner of a bucket; ` +
      "remove the option",
  );
}

function routeOf(options: MountOptions): S3Route {
  const location = locate(options);
  return { location, proxy: options.proxyFor(location) };
}

/** Loaded only where there is one: it would be a tenth of what an engine takes to start. */
async function openCache(
  cache: CacheOptions,
  options: MountOptions,
  isKnownToWork: boolean,
  log: Log,
): Promise<OpenCache> {
  const { openDiskCache, reopenDiskCache } = await import("./bucket-cache.ts");
  const memory = options.memory.cache;
  const open = isKnownToWork ? reopenDiskCache : openDiskCache;
  return open({ ...cache, memory }, nameOf(locate(options)), log);
}

function nameOf({ host, port, tls, basePath, bucket }: S3Location): string {
  return `${tls ? "https" : "http"}://${host}:${port}${basePath} ${bucket}`;
}

/**
 * A SHA-256 is a part of the signature, and no answer tells whether S3 has compared it with the
 * body. A CRC-32 besides costs little, and its answer does.
 */
function checksumOf({ checksum }: MountOptions): ChecksumKind | undefined {
  if (checksum === "off") return undefined;
  return CHECKSUM_KINDS[checksum === "sha256" ? "crc32" : checksum];
}

/** Names the two things that a user can check: the bucket and the endpoint. */
function probeFailure(error: unknown, { bucket, endpointUrl }: MountOptions): unknown {
  const at = endpointUrl === undefined ? "" : ` at ${endpointUrl}`;
  if (error instanceof Failure) {
    return new Failure(error.kind, `bucket ${bucket}${at}: ${error.message}`, error);
  }
  if (error instanceof DOMException && error.name === "TimeoutError") {
    const limit = `${PROBE_TIMEOUT_MS / 1000} s`;
    return new Failure("timeout", `bucket ${bucket}${at}: no answer within ${limit}`, error);
  }
  return error;
}

/** Of NODE_EXTRA_CA_CERTS Node itself only knows what the file was at the start of the process. */
function caBundleOf(
  { caBundlePath, extraCaPath }: MountOptions,
  isKnownToWork: boolean,
  log: Log,
): CaBundle | undefined {
  if (caBundlePath !== undefined) {
    const exclusive = { setting: "--ca-bundle", isExclusive: true } as const;
    return new CaBundle({ path: caBundlePath, ...exclusive, isKnownToWork, log });
  }
  if (extraCaPath === undefined) return undefined;
  const setting = "NODE_EXTRA_CA_CERTS";
  return new CaBundle({ path: extraCaPath, setting, isExclusive: false, log });
}
