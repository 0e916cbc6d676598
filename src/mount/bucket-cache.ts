import type { Log } from "../base/log.ts";
import { CacheDirectory } from "../cache/cache-directory.ts";
import { CachedReader } from "../cache/cached-reader.ts";
import { DiskCache } from "../cache/disk-cache.ts";
import { limitedSpace, spaceBesides } from "../cache/space.ts";
import type { ObjectReader } from "../s3/object-store.ts";
import type { CacheOptions } from "./limit-options.ts";

/** Of the cache's file system, for everybody else, when no limit was given. */
const FREE_SHARE = 0.05;

export interface OpenCache {
  /** The same objects, or what of them is on the disk. */
  readerOf(bucket: ObjectReader): ObjectReader;
  close(): Promise<void>;
}

/** A cache may outlive its mount and serve another bucket: `bucketName` keeps them apart. */
export async function openDiskCache(
  options: CacheOptions,
  bucketName: string,
  log: Log,
): Promise<OpenCache> {
  const directory = CacheDirectory.open(options.directory);
  const { limitBytes } = options;
  const space =
    limitBytes === undefined ? spaceBesides(directory.path, FREE_SHARE) : limitedSpace(limitBytes);
  const cache = await DiskCache.open({ directory, space, log });
  log.info({ directory: directory.path, usedBytes: cache.usedBytes, limitBytes }, "cache opened");
  return {
    readerOf: (bucket) => new CachedReader(bucket, cache, bucketName),
    close: () => cache.close(),
  };
}
