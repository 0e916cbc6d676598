import { AttributeFailure } from "./attribute-failure.ts";
import { CACHE_ATTRIBUTES, parseCacheVolume, sizedCache } from "./cache-volume.ts";
import type { CacheSizes, SizedCache } from "./cache-volume.ts";
import type { Engine } from "./engine.ts";
import { STRICT, hasOption, maxCacheSizeOf } from "./mount-options.ts";
import type { MountPolicy } from "./mount-options.ts";
import { allowedEnv, parseMountpointEnv } from "./mountpoint-env.ts";
import { RESOURCE_ATTRIBUTES, checkLimits, parseResources } from "./pod-resources.ts";
import type { Resources } from "./pod-resources.ts";

/** What a volume says about the Mountpoint Pods that serve it. */
export interface PodSettings {
  readonly cache: SizedCache | undefined;
  readonly resources: Resources;
  readonly serviceAccountName: string | undefined;
  readonly env: Readonly<Record<string, string>>;
}

/** The administrator's part of the settings. */
export interface PodPolicy extends MountPolicy {
  readonly cacheSizes: CacheSizes;
  /** Of containers whose volumes name none. */
  readonly resources: Resources;
  /** Serves new volumes, and needs so much memory. */
  readonly engine: Engine;
}

/** The chart's defaults. */
export const POD_POLICY: PodPolicy = {
  ...STRICT,
  engine: "s3csi",
  cacheSizes: { disk: "10Gi", memory: "512Mi" },
  resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: {} },
};

const SERVICE_ACCOUNT = "mountpointPodServiceAccountName";
/** Every volumeAttribute that is read here; those of the environment have names of their own. */
export const POD_ATTRIBUTES: readonly string[] = [
  ...RESOURCE_ATTRIBUTES,
  ...CACHE_ATTRIBUTES,
  SERVICE_ACCOUNT,
];

/** Kubernetes' names of objects: DNS subdomains. */
const OBJECT_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

type Attributes = Readonly<Record<string, string>>;

/** Checks volumes before the administrator's policy is at hand. */
let earlyPolicy = POD_POLICY;

/**
 * A process has one engine for new volumes: the controller sets it once, at its start. Without it a
 * small memory limit, which is right for mount-s3, would be refused.
 */
export function checkVolumesFor(engine: Engine): void {
  earlyPolicy = { ...POD_POLICY, engine };
}

export function parsePodSettings(
  attributes: Attributes,
  mountOptions: readonly string[],
  policy: PodPolicy = earlyPolicy,
): PodSettings {
  const cache = cacheOf(attributes, mountOptions, policy);
  const resources = parseResources(attributes, cache, policy.resources);
  checkLimits(attributes, cache, resources, policy.engine);
  return {
    cache,
    resources,
    serviceAccountName: serviceAccountOf(attributes[SERVICE_ACCOUNT]),
    env: allowedEnv(parseMountpointEnv(attributes), policy),
  };
}

/** Every cache has a size: one without would fill its node, and others would be evicted for it. */
function cacheOf(
  attributes: Attributes,
  mountOptions: readonly string[],
  { cacheSizes }: PodPolicy,
): SizedCache | undefined {
  const asked = parseCacheVolume(attributes);
  if (asked === undefined && !hasOption(mountOptions, "cache")) return undefined;
  const maxCacheSizeMib = maxCacheSizeOf(mountOptions);
  return sizedCache(asked ?? { kind: "emptyDir" }, maxCacheSizeMib, cacheSizes);
}

function serviceAccountOf(name: string | undefined): string | undefined {
  if (name === undefined || OBJECT_NAME.test(name)) return name;
  throw new AttributeFailure(
    SERVICE_ACCOUNT,
    `${SERVICE_ACCOUNT} is ${JSON.stringify(name)}: name a ServiceAccount in the namespace of ` +
      "the Mountpoint Pods",
  );
}
