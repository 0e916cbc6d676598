import { Failure } from "../base/failure.ts";
import { CACHE_DIRECTORY, cacheLimitMib, cacheSizeMib } from "./cache-volume.ts";
import type { CacheVolume } from "./cache-volume.ts";

/** How the engine is to be started, from a PV's mountOptions and the workload's fsGroup. */
export interface MountPlan {
  /** `--key` or `--key=value`, one word each: a value can never be read as an option. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly readOnly: boolean;
  /** What was left out and why, for the log and the event. */
  readonly warnings: readonly string[];
}

/** What the administrator leaves to volumes. */
export interface MountPolicy {
  /** A volume may name an S3 server of its own, or a proxy on the way to it. */
  readonly volumeEndpoints: boolean;
}

interface Option {
  readonly key: string;
  readonly value: string | undefined;
}

const LONG_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "-d": "debug",
    "-f": "foreground",
    "-h": "help",
    "-l": "log-directory",
    "-v": "version",
    "-V": "version",
  }),
);

/** Options that are not the volume's to choose. The mount goes on without them. */
const POLICY: ReadonlyMap<string, string> = new Map(
  Object.entries({
    foreground: "the driver runs the engine in the foreground",
    help: "it mounts nothing",
    version: "it mounts nothing",
    profile: "there are no profiles in a Mountpoint Pod",
    "endpoint-url":
      "the endpoint is the driver's setting, unless the chart has node.allowVolumeEndpoints",
    "cache-xz": "the shared cache is not offered",
    "incremental-upload": "it is not offered",
    "storage-class": "the storage class is the server's choice",
    "user-agent-prefix": "the driver sets its own",
    "log-directory": "the log is the Mountpoint Pod's own, see kubectl logs",
    "-o": "write its options as mountOptions of their own",
  }),
);
/** Without these the mount would be another one than the volume asks for, so there is none. */
const REFUSED: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "ca-bundle":
      "a Mountpoint Pod has no file of the volume's; authorities are the driver's setting",
  }),
);
export const STRICT: MountPolicy = { volumeEndpoints: false };
const KEY = /^[a-z][a-z0-9-]*$/;
const REPEATABLE: ReadonlySet<string> = new Set(["bind"]);

/** Accepts `key=value`, `key value` and `key`, each with or without the leading `--`. */
export function planMount(
  mountOptions: readonly string[],
  fsGroup: string,
  policy: MountPolicy = STRICT,
  cache?: CacheVolume,
): MountPlan {
  const warnings: string[] = [];
  const options = new Map<string, Option>();
  for (const text of mountOptions) {
    const option = parseOption(text);
    if (option === undefined) continue;
    const reason = reasonAgainst(option, policy);
    if (reason === undefined) addOption(options, option);
    else warnings.push(`mountOptions: ${option.key} is left out: ${reason}`);
  }
  settleCache(options, cache, warnings);
  const env = takeEnv(options);
  addDefaults(options, fsGroup);
  return { args: argsOf(options), env, readOnly: options.has("read-only"), warnings };
}

/** Whether a volume's mount options name this one, in any of its forms. */
export function hasOption(mountOptions: readonly string[], key: string): boolean {
  return mountOptions.some((text) => parseOption(text)?.key === key);
}

/** The option max-cache-size in MiB. One that is no number is left to the engine to refuse. */
export function maxCacheSizeOf(mountOptions: readonly string[]): number | undefined {
  const size = /^\s*(?:--)?max-cache-size[\s=]\s*([1-9]\d{0,9})\s*$/;
  const values = mountOptions.flatMap((text) => size.exec(text)?.[1] ?? []);
  return values[0] === undefined ? undefined : Number(values[0]);
}

/** The option prefix, empty without one. Options that are wrong mount nothing. */
export function prefixIn(mountOptions: readonly string[]): string {
  const option = /^\s*(?:--)?prefix[\s=]\s*(.*?)\s*$/;
  return mountOptions.flatMap((text) => option.exec(text)?.[1] ?? []).at(-1) ?? "";
}

/** The cache is where the Mountpoint Pod has it, and never larger than that. */
function settleCache(
  options: Map<string, Option>,
  volume: CacheVolume | undefined,
  warnings: string[],
): void {
  const limit = options.get("max-cache-size");
  if (volume !== undefined && options.has("cache")) {
    const both =
      "mountOptions: cache is given, and the volume's attribute cache too: give one of them";
    throw new Failure("invalid", both);
  }
  if (volume === undefined && !options.has("cache")) {
    if (!options.delete("max-cache-size")) return;
    warnings.push("mountOptions: max-cache-size is left out: there is no cache volume");
    return;
  }
  options.set("cache", { key: "cache", value: CACHE_DIRECTORY });
  if (volume === undefined) return;
  const sizeMib = cacheSizeMib(volume);
  if (limit !== undefined && Number(limit.value) > (sizeMib ?? Infinity)) {
    throw invalid(`max-cache-size=${limit.value}`, `the cache volume has ${sizeMib} MiB`);
  }
  const mostMib = cacheLimitMib(volume);
  if (mostMib === undefined) return;
  if (limit !== undefined) {
    if (!(Number(limit.value) > mostMib)) return; // what is no number is the engine's to refuse
    warnings.push(
      `mountOptions: max-cache-size=${limit.value} is reduced to ${mostMib}: the cache volume ` +
        `has ${sizeMib} MiB, and the rest is for file system blocks`,
    );
  }
  options.set("max-cache-size", { key: "max-cache-size", value: String(mostMib) });
}

function reasonAgainst({ key, value }: Option, policy: MountPolicy): string | undefined {
  const refusal = REFUSED.get(key);
  if (refusal !== undefined) throw new Failure("invalid", `mountOptions: ${key}: ${refusal}`);
  if (key !== "endpoint-url" || !policy.volumeEndpoints) return POLICY.get(key);
  if (value !== undefined && isEndpoint(value)) return undefined;
  throw invalid(`${key}=${value ?? ""}`, "give http://HOST[:PORT] or https://HOST[:PORT]");
}

/** No keys in it, no path, no query: what the engine would make of those is not said anywhere. */
function isEndpoint(value: string): boolean {
  return /^https?:\/\/[^/?#@\s\\]+\/?$/.test(value) && URL.canParse(value);
}

function parseOption(text: string): Option | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const border = trimmed.search(/[\s=]/);
  const word = border === -1 ? trimmed : trimmed.slice(0, border);
  const value = border === -1 ? undefined : trimmed.slice(border + 1).trim();
  if (value?.includes("\0") === true) throw invalid(text, "a value can not hold a NUL character");
  const key = keyOf(word);
  if (key === undefined) throw invalid(text, "write key, key=value or key value");
  if (key === "read-only" && value !== undefined) throw invalid(text, "read-only takes no value");
  return { key, value };
}

function keyOf(word: string): string | undefined {
  if (word === "-o") return word;
  const key = LONG_NAMES.get(word) ?? (word.startsWith("--") ? word.slice(2) : word);
  return KEY.test(key) ? key : undefined;
}

function addOption(options: Map<string, Option>, option: Option): void {
  const id = REPEATABLE.has(option.key) ? `${option.key}=${option.value}` : option.key;
  const present = options.get(id);
  if (present !== undefined && present.value !== option.value) {
    const values = [present.value, option.value].map((value) => value ?? "(none)");
    throw new Failure(
      "invalid",
      `mountOptions: ${option.key} is given twice: ${values.join(", ")}`,
    );
  }
  options.set(id, option);
}

/** An option of the driver's for the engine's environment: no engine has a flag for it. */
function takeEnv(options: Map<string, Option>): Record<string, string> {
  const attempts = options.get("aws-max-attempts")?.value;
  if (!options.delete("aws-max-attempts")) return {};
  if (attempts !== undefined && /^[1-9][0-9]*$/.test(attempts)) {
    return { AWS_MAX_ATTEMPTS: attempts };
  }
  throw invalid(`aws-max-attempts=${attempts ?? ""}`, "give a whole number from 1");
}

function addDefaults(options: Map<string, Option>, fsGroup: string): void {
  const add = (key: string, value?: string) => {
    if (!options.has(key)) options.set(key, { key, value });
  };
  // An accelerated endpoint needs the bucket in its host name.
  if (!options.has("transfer-acceleration")) add("force-path-style");
  if (fsGroup !== "") {
    add("gid", fsGroup);
    add("dir-mode", "0770");
    add("file-mode", "0660");
    if (!options.has("allow-root")) add("allow-other"); // the engine takes one of the two
  }
  if (!options.has("allow-other")) add("allow-root");
}

function argsOf(options: ReadonlyMap<string, Option>): string[] {
  return Array.from(options.values(), ({ key, value }) =>
    value === undefined ? `--${key}` : `--${key}=${value}`,
  );
}

function invalid(option: string, rule: string): Failure {
  return new Failure(
    "invalid",
    `mountOptions: ${JSON.stringify(option)} is not an option: ${rule}`,
  );
}
