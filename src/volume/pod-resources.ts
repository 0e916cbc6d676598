import { Failure } from "../base/failure.ts";
import { AttributeFailure } from "./attribute-failure.ts";
import { cacheLimitMib, cacheSizeMib } from "./cache-volume.ts";
import type { SizedCache } from "./cache-volume.ts";
import { MEMORY_LIMIT_MIB_MIN } from "./engine.ts";
import type { Engine } from "./engine.ts";
import { parseAttributeQuantity, parseQuantity } from "./quantity.ts";

type Quantities = Readonly<Record<string, string>>;

/** Of a Mountpoint Pod's container, as Kubernetes has them. */
export interface Resources {
  readonly requests: Quantities;
  readonly limits: Quantities;
}

/** The volumeAttributes of the four, by group and resource. */
const FIELDS = {
  requests: {
    cpu: "mountpointContainerResourcesRequestsCpu",
    memory: "mountpointContainerResourcesRequestsMemory",
  },
  limits: {
    cpu: "mountpointContainerResourcesLimitsCpu",
    memory: "mountpointContainerResourcesLimitsMemory",
  },
} as const;
export const RESOURCE_ATTRIBUTES: readonly string[] = Object.values(FIELDS).flatMap((group) =>
  Object.values(group),
);
const RESOURCES = ["cpu", "memory"] as const;
const MIB = 1024 ** 2;
/** A cache in memory counts against the limit of the container, and has at least that much. */
const MEMORY_CACHE_MIB_MIN = 1;
/** No node has more. */
const LARGEST = {
  cpu: { value: 1_000_000, text: "1000000" },
  memory: { value: 1024 ** 6, text: "1Ei" },
} as const;

/** A volume's own, else the administrator's, with what the cache takes. */
export function parseResources(
  attributes: Quantities,
  cache: SizedCache | undefined,
  defaults: Resources,
): Resources {
  const own = {
    requests: quantitiesOf(attributes, "requests"),
    limits: quantitiesOf(attributes, "limits"),
  };
  const requests: Record<string, string> = {};
  const limits: Record<string, string> = {};
  for (const resource of RESOURCES) {
    const limit = limitOf(resource, own, defaults);
    const request = requestOf(resource, own, withCache(defaults, cache));
    if (limit !== undefined) limits[resource] = limit;
    if (request !== undefined) requests[resource] = smallerOf(request, limit);
  }
  return { requests: { ...requests, ...storageOf(cache) }, limits };
}

/** The resources that the administrator gives to all Mountpoint Pods, as Kubernetes has them. */
export function parseDefaultResources(value: unknown): Resources {
  const { requests, limits, ...others } = recordOf("mountpointPod.resources", value);
  refuseOthers("mountpointPod.resources", others, "requests and limits");
  const given = {
    requests: defaultsOf("mountpointPod.resources.requests", requests),
    limits: defaultsOf("mountpointPod.resources.limits", limits),
  };
  for (const resource of RESOURCES) {
    const [request, limit] = [given.requests[resource], given.limits[resource]];
    if (request === undefined || smallerOf(request, limit) === request) continue;
    throw new Failure(
      "invalid",
      `mountpointPod.resources.requests.${resource} is ${request}, above the limit of ${limit}`,
    );
  }
  return given;
}

/** Refuses default limits with which no volume could be served. */
export function checkDefaultLimits({ limits }: Resources, engine: Engine): void {
  const { memory } = limits;
  const field = "mountpointPod.resources.limits.memory";
  const leastMib = MEMORY_LIMIT_MIB_MIN[engine];
  if (memory === undefined || parseQuantity(field, memory) >= leastMib * MIB) return;
  throw new Failure("invalid", `${field} ${tooSmall(memory, engine, leastMib)}`);
}

/** Refuses a volume that no engine can serve within the memory limit of its containers. */
export function checkLimits(
  attributes: Quantities,
  cache: SizedCache | undefined,
  { limits }: Resources,
  engine: Engine,
): void {
  const { memory } = limits;
  if (memory === undefined) return;
  const hasCache = cache !== undefined && isInMemory(cache);
  const leastMib = MEMORY_LIMIT_MIB_MIN[engine] + (hasCache ? MEMORY_CACHE_MIB_MIN : 0);
  if (parseQuantity("the memory limit", memory) >= leastMib * MIB) return;
  const field = FIELDS.limits.memory;
  const why = tooSmall(memory, engine, leastMib, hasCache);
  if (attributes[field] !== undefined) throw new AttributeFailure(field, `${field} ${why}`);
  const rule = `is "Memory", and the default memory limit ${why}`;
  throw new AttributeFailure("cacheEmptyDirMedium", `cacheEmptyDirMedium ${rule}`);
}

/**
 * The cache that an engine may fill, in MiB. A cache in memory counts against the container's limit
 * and leaves the engine at least half of it.
 */
export function engineCacheMib(cache: SizedCache, { limits }: Resources): number {
  const mostMib = cacheLimitMib(cache);
  if (!isInMemory(cache) || limits["memory"] === undefined) return mostMib;
  const memoryMib = parseQuantity("the memory limit", limits["memory"]) / MIB;
  const leftMib = Math.min(memoryMib / 2, memoryMib - MEMORY_LIMIT_MIB_MIN.s3csi);
  return Math.max(MEMORY_CACHE_MIB_MIN, Math.floor(Math.min(mostMib, leftMib)));
}

function quantitiesOf(attributes: Quantities, group: keyof typeof FIELDS): Quantities {
  const quantities: Record<string, string> = {};
  for (const resource of RESOURCES) {
    const field = FIELDS[group][resource];
    const value = attributes[field];
    if (value === undefined) continue;
    if (parseAttributeQuantity(field, value) > LARGEST[resource].value) {
      throw new AttributeFailure(field, `${field} ${tooLarge(value, resource)}`);
    }
    quantities[resource] = value;
  }
  return quantities;
}

/** A default limit is no ceiling: a volume that requests more has its request for a limit. */
function limitOf(
  resource: (typeof RESOURCES)[number],
  own: Resources,
  { limits }: Resources,
): string | undefined {
  const [request, limit] = [own.requests[resource], own.limits[resource]];
  if (limit === undefined) {
    const standard = limits[resource];
    if (standard === undefined || request === undefined) return standard;
    return smallerOf(request, standard) === request ? standard : request;
  }
  if (request === undefined || smallerOf(request, limit) === request) return limit;
  const field = FIELDS.requests[resource];
  throw new AttributeFailure(
    field,
    `${field} is ${request}: a Mountpoint Pod can not request ${resource} ${request} with a ` +
      `limit of ${limit}; request at most the limit`,
  );
}

/** A limit alone is the request too (Kubernetes' rule): a default might be above it. */
function requestOf(
  resource: (typeof RESOURCES)[number],
  own: Resources,
  { requests }: Resources,
): string | undefined {
  const standard = own.limits[resource] === undefined ? requests[resource] : undefined;
  return own.requests[resource] ?? standard;
}

/** A cache in memory that nobody has requested would be taken from the node's other pods. */
function withCache(defaults: Resources, cache: SizedCache | undefined): Resources {
  const { memory } = defaults.requests;
  if (memory === undefined || cache === undefined || !isInMemory(cache)) return defaults;
  const mib = Math.ceil(parseQuantity("", memory) / MIB + (cacheSizeMib(cache) ?? 0));
  return { ...defaults, requests: { ...defaults.requests, memory: `${mib}Mi` } };
}

/** The scheduler then counts the disk of the node, which a cache shares with all other pods. */
function storageOf(cache: SizedCache | undefined): Quantities {
  if (cache?.kind !== "emptyDir" || cache.medium === "Memory") return {};
  return { "ephemeral-storage": cache.sizeLimit };
}

function isInMemory(cache: SizedCache): boolean {
  return cache.kind === "emptyDir" && cache.medium === "Memory";
}

function smallerOf(one: string, other: string | undefined): string {
  if (other === undefined || parseQuantity("", one) <= parseQuantity("", other)) return one;
  return other;
}

function defaultsOf(field: string, value: unknown): Quantities {
  const { cpu, memory, ...others } = recordOf(field, value ?? {});
  refuseOthers(field, others, "cpu and memory");
  const quantities: Record<string, string> = {};
  const all = { cpu, memory };
  for (const resource of RESOURCES) {
    const given = all[resource];
    if (given === undefined || given === null) continue;
    const name = `${field}.${resource}`;
    const quantity = typeof given === "number" ? String(given) : given;
    if (typeof quantity !== "string") throw new Failure("invalid", `${name} must be a quantity`);
    if (parseQuantity(name, quantity) > LARGEST[resource].value) {
      throw new Failure("invalid", `${name} ${tooLarge(quantity, resource)}`);
    }
    quantities[resource] = quantity;
  }
  return quantities;
}

function tooSmall(memory: string, engine: Engine, leastMib: number, hasCache = false): string {
  const cache = hasCache ? " and a cache in memory" : "";
  return `is ${JSON.stringify(memory)}: the engine ${engine}${cache} needs at least ${leastMib}Mi`;
}

function tooLarge(quantity: string, resource: keyof typeof LARGEST): string {
  const { text } = LARGEST[resource];
  return `is ${JSON.stringify(quantity)}: no node has so much; use at most ${text}`;
}

function recordOf(field: string, value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new Failure("invalid", `${field} must be an object`);
}

function refuseOthers(field: string, others: object, known: string): void {
  const [other] = Object.keys(others);
  if (other === undefined) return;
  throw new Failure("invalid", `${field}.${other} is not known: use ${known}`);
}
