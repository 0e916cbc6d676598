import { Failure } from "../base/failure.ts";
import { parseQuantity } from "./quantity.ts";

/** Where a Mountpoint Pod has its cache, whatever path a mount option names. */
export const CACHE_DIRECTORY = "/cache";
/** The rest is for file system blocks and files that are just being written. */
const CACHE_SHARE = 0.95;
const MIB = 1024 ** 2;

/** The volume that a Mountpoint Pod keeps objects on. Sizes are Kubernetes quantities. */
export type CacheVolume =
  | { readonly kind: "emptyDir"; readonly sizeLimit?: string; readonly medium?: "Memory" }
  | { readonly kind: "ephemeral"; readonly storageClassName: string; readonly size: string };

const FIELDS = {
  emptyDir: ["cacheEmptyDirSizeLimit", "cacheEmptyDirMedium"],
  ephemeral: ["cacheEphemeralStorageClassName", "cacheEphemeralStorageResourceRequest"],
} as const;

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

/** In MiB, as the engine counts; undefined where nothing limits the volume. */
export function cacheLimitMib(cache: CacheVolume): number | undefined {
  const sizeMib = cacheSizeMib(cache);
  return sizeMib === undefined ? undefined : Math.max(1, Math.floor(sizeMib * CACHE_SHARE));
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
    throw new Failure(
      "invalid",
      `volumeAttributes.${field} is for a cache of kind ${owner}: set volumeAttributes.cache to it`,
    );
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
  if (storageClassName === "") throw invalid(classField, "", "name a StorageClass for the cache");
  checkSize(sizeField, size);
  return { kind: "ephemeral", storageClassName, size };
}

function checkSize(field: string, size: string): void {
  if (parseQuantity(`volumeAttributes.${field}`, size) >= MIB) return;
  throw invalid(field, size, "a cache has at least 1Mi");
}

function invalid(field: string, value: string, rule: string): Failure {
  return new Failure("invalid", `volumeAttributes.${field} is ${JSON.stringify(value)}: ${rule}`);
}
