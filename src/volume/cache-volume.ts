import { AttributeFailure } from "./attribute-failure.ts";
import { QUANTITY_RULE, parseAttributeQuantity, parseQuantity } from "./quantity.ts";

/** Where a Mountpoint Pod has its cache, whatever path a mount option names. */
export const CACHE_DIRECTORY = "/cache";
/** The rest is for file system blocks and files that are just being written. */
const CACHE_SHARE = 0.95;
/** In small caches the share would be less than one block and its header. */
const MARGIN_MIB_MIN = 2;
const MIB = 1024 ** 2;

interface EmptyDirCache {
  readonly kind: "emptyDir";
  readonly sizeLimit?: string;
  readonly medium?: "Memory";
}

interface EphemeralCache {
  readonly kind: "ephemeral";
  readonly storageClassName: string;
  readonly size: string;
}

/** The volume that a PV asks for its objects. Sizes are Kubernetes quantities. */
export type CacheVolume = EmptyDirCache | EphemeralCache;

/** The volume that a Mountpoint Pod gets: the kubelet evicts a pod whose cache is larger. */
export type SizedCache = (EmptyDirCache & { readonly sizeLimit: string }) | EphemeralCache;

/** Sizes of emptyDir caches whose volumes name none, as Kubernetes quantities. */
export interface CacheSizes {
  readonly disk: string;
  readonly memory: string;
}

const FIELDS = {
  emptyDir: ["cacheEmptyDirSizeLimit", "cacheEmptyDirMedium"],
  ephemeral: ["cacheEphemeralStorageClassName", "cacheEphemeralStorageResourceRequest"],
} as const;

export const CACHE_ATTRIBUTES: readonly string[] = [
  "cache",
  ...FIELDS.emptyDir,
  ...FIELDS.ephemeral,
];

type Attributes = Readonly<Record<string, string>>;

/** What a PV's volumeAttributes ask for. */
export function parseCacheVolume(attributes: Attributes): CacheVolume | undefined {
  const kind = attributes["cache"];
  checkLonely(attributes, kind);
  if (kind === undefined) return undefined;
  if (kind === "emptyDir") return parseEmptyDir(attributes);
  if (kind === "ephemeral") return parseEphemeral(attributes);
  throw invalid("cache", kind, 'use "emptyDir" or "ephemeral"');
}

/** The size that is asked for, else one that holds `max-cache-size`, else the default. */
export function sizedCache(
  cache: CacheVolume,
  maxCacheSizeMib: number | undefined,
  defaults: CacheSizes,
): SizedCache {
  if (cache.kind === "ephemeral") return cache;
  const standard = cache.medium === "Memory" ? defaults.memory : defaults.disk;
  const wanted = maxCacheSizeMib === undefined ? standard : sizeFor(maxCacheSizeMib);
  return { ...cache, sizeLimit: cache.sizeLimit ?? wanted };
}

/** In MiB, as engines count, and below the volume's size; undefined where nothing limits it. */
export function cacheLimitMib(cache: SizedCache): number;
export function cacheLimitMib(cache: CacheVolume): number | undefined;
export function cacheLimitMib(cache: CacheVolume): number | undefined {
  const sizeMib = cacheSizeMib(cache);
  if (sizeMib === undefined) return undefined;
  return Math.max(1, Math.floor(Math.min(sizeMib * CACHE_SHARE, sizeMib - MARGIN_MIB_MIN)));
}

function sizeFor(limitMib: number): string {
  return `${Math.max(Math.ceil(limitMib / CACHE_SHARE), limitMib + MARGIN_MIB_MIN)}Mi`;
}

export function cacheSizeMib(cache: CacheVolume): number | undefined {
  const size = cache.kind === "emptyDir" ? cache.sizeLimit : cache.size;
  return size === undefined ? undefined : parseQuantity("the cache's size", size) / MIB;
}

/** A size that belongs to a kind which was not asked for would be ignored: it is a mistake. */
function checkLonely(attributes: Attributes, kind: string | undefined): void {
  for (const [owner, fields] of Object.entries(FIELDS)) {
    const field = fields.find((name) => attributes[name] !== undefined);
    if (field === undefined || kind === owner) continue;
    const rule = `is for a cache of kind ${owner}: set volumeAttributes.cache to it`;
    throw new AttributeFailure(field, `${field} ${rule}`);
  }
}

function parseEmptyDir(attributes: Attributes): CacheVolume {
  const medium = attributes["cacheEmptyDirMedium"] ?? "";
  if (medium !== "" && medium !== "Memory") {
    throw invalid("cacheEmptyDirMedium", medium, 'use "Memory", or leave it out');
  }
  const sizeLimit = attributes["cacheEmptyDirSizeLimit"];
  if (sizeLimit !== undefined) checkSize("cacheEmptyDirSizeLimit", sizeLimit);
  return {
    kind: "emptyDir",
    ...(sizeLimit === undefined ? {} : { sizeLimit }),
    ...(medium === "" ? {} : { medium }),
  };
}

function parseEphemeral(attributes: Attributes): CacheVolume {
  const [classField, sizeField] = FIELDS.ephemeral;
  const storageClassName = attributes[classField] ?? "";
  const size = attributes[sizeField] ?? "";
  if (storageClassName === "") {
    throw incomplete(attributes, classField, "name a StorageClass for the cache");
  }
  if (size === "") throw incomplete(attributes, sizeField, QUANTITY_RULE);
  checkSize(sizeField, size);
  return { kind: "ephemeral", storageClassName, size };
}

export function isCacheSize(size: string): boolean {
  try {
    return parseQuantity("", size) >= MIB;
  } catch {
    return false;
  }
}

function checkSize(field: string, size: string): void {
  if (parseAttributeQuantity(field, size) >= MIB) return;
  throw invalid(field, size, "a cache has at least 1Mi");
}

function invalid(field: string, value: string, rule: string): AttributeFailure {
  return new AttributeFailure(field, `${field} is ${JSON.stringify(value)}: ${rule}`);
}

/** An ephemeral cache that lacks a field: if the field is not there, `cache` itself is at fault. */
function incomplete(attributes: Attributes, field: string, rule: string): AttributeFailure {
  const atFault = attributes[field] === undefined ? "cache" : field;
  return new AttributeFailure(atFault, `${field} is "": ${rule}`);
}
