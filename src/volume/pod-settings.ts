import { Failure } from "../base/failure.ts";
import { parseCacheVolume } from "./cache-volume.ts";
import type { CacheVolume } from "./cache-volume.ts";
import { hasOption } from "./mount-options.ts";
import { parseQuantity } from "./quantity.ts";

/** What a volume says about the Mountpoint Pods that serve it. */
export interface PodSettings {
  readonly cache: CacheVolume | undefined;
  readonly requests: Readonly<Record<string, string>>;
  readonly limits: Readonly<Record<string, string>>;
  readonly serviceAccountName: string | undefined;
  readonly env: Readonly<Record<string, string>>;
}

const DEFAULT_REQUESTS = { cpu: "10m", memory: "64Mi" } as const;
const ENV_PREFIX = "mountpointEnv.";
/** Others could turn the engine into something else: a loader's path, a debugger's port. */
const ENV_ALLOWED: ReadonlySet<string> = new Set(["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]);
/** Kubernetes' names of objects: DNS subdomains. */
const OBJECT_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

type Attributes = Readonly<Record<string, string>>;

export function parsePodSettings(
  attributes: Attributes,
  mountOptions: readonly string[],
): PodSettings {
  const asked = parseCacheVolume(attributes);
  const limits = quantitiesOf(attributes, "Limits");
  return {
    cache: asked ?? (hasOption(mountOptions, "cache") ? { kind: "emptyDir" } : undefined),
    limits,
    requests: requestsOf(quantitiesOf(attributes, "Requests"), limits),
    serviceAccountName: serviceAccountOf(attributes["mountpointPodServiceAccountName"]),
    env: envOf(attributes),
  };
}

function quantitiesOf(attributes: Attributes, group: "Requests" | "Limits") {
  const quantities: Record<string, string> = {};
  for (const resource of ["Cpu", "Memory"]) {
    const field = `mountpointContainerResources${group}${resource}`;
    const value = attributes[field];
    if (value === undefined) continue;
    parseQuantity(`volumeAttributes.${field}`, value);
    quantities[resource.toLowerCase()] = value;
  }
  return quantities;
}

/** A limit alone is the request too (Kubernetes' rule): our default might be above it. */
function requestsOf(given: Record<string, string>, limits: Record<string, string>) {
  const requests: Record<string, string> = {};
  for (const [resource, value] of Object.entries(DEFAULT_REQUESTS)) {
    const asked = given[resource] ?? (limits[resource] === undefined ? value : undefined);
    if (asked !== undefined) requests[resource] = asked;
    const limit = limits[resource];
    if (asked === undefined || limit === undefined) continue;
    if (parseQuantity("", asked) <= parseQuantity("", limit)) continue;
    throw new Failure(
      "invalid",
      `volumeAttributes: a Mountpoint Pod can not request ${resource} ${asked} with a limit of ` +
        `${limit}: set mountpointContainerResourcesRequests… to at most the limit`,
    );
  }
  return requests;
}

function serviceAccountOf(name: string | undefined): string | undefined {
  if (name === undefined || OBJECT_NAME.test(name)) return name;
  throw new Failure(
    "invalid",
    `volumeAttributes.mountpointPodServiceAccountName is ${JSON.stringify(name)}: name a ` +
      "ServiceAccount in the namespace of the Mountpoint Pods",
  );
}

function envOf(attributes: Attributes): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [field, value] of Object.entries(attributes)) {
    if (!field.startsWith(ENV_PREFIX)) continue;
    const name = field.slice(ENV_PREFIX.length);
    if (!ENV_ALLOWED.has(name)) {
      throw new Failure(
        "invalid",
        `volumeAttributes.${field}: environment variable not allowed: use one of ` +
          Array.from(ENV_ALLOWED).join(", "),
      );
    }
    env[name] = value;
  }
  return env;
}
