import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../base/log.ts";
import { CacheDirectory } from "../cache/cache-directory.ts";
import { CachedReader } from "../cache/cached-reader.ts";
import { DiskCache } from "../cache/disk-cache.ts";
import type { CacheMemory } from "../cache/disk-cache.ts";
import { limitedSpace, spaceBesides } from "../cache/space.ts";
import type { ObjectReader, RangeRead } from "../s3/object-store.ts";
import type { CacheOptions } from "./limit-options.ts";

/** Of the cache's file system, for everybody else, when no limit was given. */
const FREE_SHARE = 0.05;
/** Between two attempts to open the cache of a running mount: each is a few system calls. */
const RETRY_AFTER_MS = 5_000;

export interface OpenCache {
  /** The same objects, or what of them is on the disk. */
  readerOf(bucket: ObjectReader): ObjectReader;
  /** Waits for the scan of an earlier mount's pieces, but no longer than that. */
  scannedWithin(limitMs: number): Promise<void>;
  close(): Promise<void>;
}

export interface DiskCacheOptions extends CacheOptions {
  readonly memory: CacheMemory;
}

/** A cache may outlive its mount and serve another bucket: `bucketName` keeps them apart. */
export function openDiskCache(options: DiskCacheOptions, bucketName: string, log: Log): OpenCache {
  const directory = CacheDirectory.open(options.directory);
  const { limitBytes, memory } = options;
  const space =
    limitBytes === undefined ? spaceBesides(directory.path, FREE_SHARE) : limitedSpace(limitBytes);
  const cache = DiskCache.open({ directory, space, log, memory });
  void cache.ready.then(() => {
    log.info({ directory: directory.path, usedBytes: cache.usedBytes, limitBytes }, "cache opened");
  });
  return {
    readerOf: (bucket) => new CachedReader(bucket, cache, bucketName),
    scannedWithin: async (limitMs) => {
      await Promise.race([cache.ready, sleep(limitMs, undefined, { ref: false })]);
    },
    close: () => cache.close(),
  };
}

/**
 * The cache of a mount that has applications already: while it can't be opened, the bucket alone
 * is read. The directory may be gone or read-only, and its lock may be held by what is left of the
 * engine before this one: a thread inside a FUSE notification ends only when this engine serves.
 */
export function reopenDiskCache(
  options: DiskCacheOptions,
  bucketName: string,
  log: Log,
  retryAfterMs = RETRY_AFTER_MS,
): OpenCache {
  try {
    return openDiskCache(options, bucketName, log);
  } catch (error) {
    log.warn({ directory: options.directory, err: error }, "cache not opened, reading without it");
  }
  let opened: OpenCache | undefined;
  const open = () => (opened = openDiskCache(options, bucketName, log));
  return {
    readerOf: (bucket) => new LateReader(bucket, () => open().readerOf(bucket), retryAfterMs),
    scannedWithin: () => Promise.resolve(),
    close: async () => opened?.close(),
  };
}

/** Reads the bucket itself until its cache can be opened, which is tried again as it is read. */
class LateReader implements ObjectReader {
  readonly #bucket: ObjectReader;
  readonly #open: () => ObjectReader;
  readonly #retryAfterMs: number;
  #cached: ObjectReader | undefined;
  #triedMs = performance.now();

  constructor(bucket: ObjectReader, open: () => ObjectReader, retryAfterMs: number) {
    this.#bucket = bucket;
    this.#open = open;
    this.#retryAfterMs = retryAfterMs;
  }

  read(range: RangeRead, signal: AbortSignal): Promise<void> {
    const isDue = performance.now() - this.#triedMs >= this.#retryAfterMs;
    if (this.#cached === undefined && isDue) this.#tryAgain();
    return (this.#cached ?? this.#bucket).read(range, signal);
  }

  #tryAgain(): void {
    this.#triedMs = performance.now();
    try {
      this.#cached = this.#open();
    } catch {
      // The log has said why it can't be opened.
    }
  }
}
