import { readFileSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { CredentialSource } from "../s3/credentials.ts";
import type { ObjectReader, ObjectStore } from "../s3/object-store.ts";
import { locate } from "../s3/s3-location.ts";
import type { S3Location } from "../s3/s3-location.ts";
import { S3Store } from "../s3/s3-store.ts";
import { S3Transport } from "../s3/s3-transport.ts";
import { CHECKSUM_KINDS } from "../s3/upload-checksum.ts";
import type { ChecksumKind } from "../s3/upload-checksum.ts";
import type { OpenCache } from "./bucket-cache.ts";
import type { CacheOptions } from "./limit-options.ts";
import type { MountOptions } from "./mount-options.ts";

const CONNECTIONS_MAX = 64;
const CONNECT_TIMEOUT_MS = 3_000;
const SILENCE_LIMIT_MS = 20_000;
const PROBE_TIMEOUT_MS = 5_000;

export interface OpenedBucket {
  readonly store: ObjectStore;
  /** The same bucket, or what of it is on a disk here. */
  readonly reader: ObjectReader;
}

/** The bucket that the options name, asked once whether it will serve us if that is not known. */
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
  const location = locate(options);
  const cache = options.cache && (await openCache(options.cache, nameOf(location), log));
  const transport = new S3Transport({
    location,
    credentials: options.signs ? credentials : undefined,
    ca: readCaBundle(options.caBundlePath),
    proxy: options.proxyFor(location),
    userAgent: `${options.userAgentPrefix} s3csi`.trim(),
    connectionsMax: CONNECTIONS_MAX,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    silenceLimitMs: SILENCE_LIMIT_MS,
    signsPayload: options.checksum === "sha256",
    extraHeaders: options.requestHeaders,
  });
  const policy = { attemptsMax: options.attemptsMax, windowMs: options.outageLimitMs };
  const store = new S3Store(transport, policy, {
    objectHeaders: options.objectHeaders,
    checksum: checksumOf(options),
  });
  try {
    if (!isKnownToWork) await store.probe(options.engine.prefix, PROBE_TIMEOUT_MS);
    return { store, reader: cache?.readerOf(store) ?? store };
  } catch (error) {
    store.close();
    await cache?.close();
    throw probeFailure(error, options);
  }
}

/** Loaded only where there is one: it would be a tenth of what an engine takes to start. */
async function openCache(options: CacheOptions, bucketName: string, log: Log): Promise<OpenCache> {
  const { openDiskCache } = await import("./bucket-cache.ts");
  return openDiskCache(options, bucketName, log);
}

function nameOf({ host, port, tls, basePath, bucket }: S3Location): string {
  return `${tls ? "https" : "http"}://${host}:${port}${basePath} ${bucket}`;
}

/** A SHA-256 is a part of the signature already, and needs no header of its own. */
function checksumOf({ checksum }: MountOptions): ChecksumKind | undefined {
  return checksum === "crc32" || checksum === "crc32c" ? CHECKSUM_KINDS[checksum] : undefined;
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

function readCaBundle(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new Failure("invalid", `--ca-bundle ${path}: can't be read`, error);
  }
}
