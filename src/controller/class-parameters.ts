import {
  AUTHENTICATION_SOURCES,
  bareOf,
  isBucketName,
  isRegion,
} from "../volume/volume-context.ts";
import type { AuthenticationSource } from "../volume/volume-context.ts";
import { POD_ATTRIBUTES } from "../volume/pod-settings.ts";
import { wrongParameter as wrong } from "./parameter-failure.ts";
import { isPodAttribute, podAttributesOf } from "./pod-attributes.ts";
import { ON_DELETE, volumeHandleOf, volumeUuidOf } from "../volume/volume-handle.ts";
import type { OnDelete, VolumePlace } from "../volume/volume-handle.ts";

/** A StorageClass' parameters as CreateVolume gets them, checked. */
export interface ClassParameters {
  /** Unset: each volume gets a bucket of its own. */
  readonly bucketName: string | undefined;
  /** A template; the volume's own part is added behind it. */
  readonly prefix: string;
  /** Default: keepIfNotEmpty for a bucket of its own, retain for a prefix. */
  readonly onDelete: OnDelete;
  readonly bucketNamePrefix: string;
  readonly region: string | undefined;
  readonly authenticationSource: AuthenticationSource | undefined;
  /** For the volume's Mountpoint Pods: volumeAttributes of the same names. */
  readonly podAttributes: Readonly<Record<string, string>>;
  /** For whom it is, where the provisioner tells. */
  readonly claim: ClaimFacts;
}

export interface ClaimFacts {
  readonly pvcName?: string;
  readonly pvcNamespace?: string;
  readonly pvName?: string;
}

/** What a provisioner adds: ours always, the official one with --extra-create-metadata. */
export const CLAIM_KEYS = {
  pvcName: "csi.storage.k8s.io/pvc/name",
  pvcNamespace: "csi.storage.k8s.io/pvc/namespace",
  pvName: "csi.storage.k8s.io/pv/name",
} as const;
export const PARAMETERS = [
  "authenticationSource",
  "bucketName",
  "bucketNamePrefix",
  "onDelete",
  "prefix",
  "region",
] as const;

const BUCKET_NAME_PREFIX_DEFAULT = "csi-s3-";
/** A bucket's name has 63 characters, and the UUID behind the prefix takes 36. */
const BUCKET_NAME_PREFIX = /^[a-z0-9][a-z0-9-]{0,26}$/;
/** CSI's limit for a volume's ID. */
const HANDLE_BYTES_MAX = 128;
const PREFIX_PART = /^(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const TEMPLATES: Readonly<Record<string, keyof ClaimFacts>> = {
  "${pvc.name}": "pvcName",
  "${pvc.namespace}": "pvcNamespace",
  "${pv.name}": "pvName",
};

export function parseClassParameters(given: Readonly<Record<string, string>>): ClassParameters {
  const { bucketName, prefix = "", bucketNamePrefix, region } = given;
  const known = new Set<string>([...PARAMETERS, ...Object.values(CLAIM_KEYS)]);
  for (const key of Object.keys(given)) {
    if (known.has(key) || isPodAttribute(key)) continue;
    throw wrong(key, given[key], `not known; ${hintFor(key)}`);
  }
  if (bucketName !== undefined && !isBucketName(bucketName)) {
    throw wrong("bucketName", bucketName, "not the name of a bucket");
  }
  if (bucketName === undefined && given["prefix"] !== undefined) {
    throw wrong("prefix", prefix, "only with bucketName: a volume's own bucket has no prefix");
  }
  if (bucketName !== undefined && bucketNamePrefix !== undefined) {
    throw wrong("bucketNamePrefix", bucketNamePrefix, "not with bucketName, which is the bucket");
  }
  if (bucketNamePrefix !== undefined && !BUCKET_NAME_PREFIX.test(bucketNamePrefix)) {
    const rule = "1 to 27 small letters, digits and hyphens, the first not a hyphen";
    throw wrong("bucketNamePrefix", bucketNamePrefix, rule);
  }
  if (region !== undefined && !isRegion(region)) {
    throw wrong("region", region, "letters, digits and hyphens");
  }
  checkTemplates(prefix);
  return {
    bucketName,
    prefix,
    onDelete:
      oneOf("onDelete", given["onDelete"], ON_DELETE) ??
      (bucketName === undefined ? "keepIfNotEmpty" : "retain"),
    bucketNamePrefix: bucketNamePrefix ?? BUCKET_NAME_PREFIX_DEFAULT,
    region,
    authenticationSource: oneOf(
      "authenticationSource",
      given["authenticationSource"],
      AUTHENTICATION_SOURCES,
    ),
    podAttributes: podAttributesOf(given),
    claim: claimFactsOf(given),
  };
}

/** Who has only mistyped one need not look for it in the list. */
function hintFor(key: string): string {
  const names = [...PARAMETERS, ...POD_ATTRIBUTES];
  const meant = names.find((name) => bareOf(name) === bareOf(key));
  return meant === undefined ? `use ${names.join(", ")}` : `write ${meant}`;
}

/** Derived from the request alone: whoever asks again means the same bucket, the same prefix. */
export function placeOf(name: string, parameters: ClassParameters): VolumePlace {
  const { bucketName, bucketNamePrefix, region, onDelete } = parameters;
  const uuid = volumeUuidOf(name);
  const own = bucketName === undefined ? "" : expandPrefix(parameters);
  // A prefix without objects is nothing: there is none to delete, and keepIfNotEmpty is retain.
  const ofPrefix = onDelete === "delete" ? "delete" : "retain";
  const place: VolumePlace =
    bucketName === undefined
      ? { bucket: `${bucketNamePrefix}${uuid}`, region, prefix: "", onDelete: "keepIfNotEmpty" }
      : { bucket: bucketName, region, prefix: `${own}${uuid}/`, onDelete: ofPrefix };
  const handle = volumeHandleOf(place);
  if (Buffer.byteLength(handle) <= HANDLE_BYTES_MAX) return place;
  const parts = { prefix: own || undefined, region, bucketName };
  const [key = "", value] = Object.entries(parts).find(([, part]) => part !== undefined) ?? [];
  const excess = Buffer.byteLength(handle) - HANDLE_BYTES_MAX;
  const rule = `${excess} characters too long: the volume's handle would be ${handle}`;
  throw wrong(key, value, `${rule}, and CSI allows ${HANDLE_BYTES_MAX} bytes`);
}

function expandPrefix({ prefix, claim }: ClassParameters): string {
  const expanded = prefix.replace(/\$\{[^}]*\}/g, (template) => {
    const value = claim[TEMPLATES[template] ?? "pvName"];
    if (value !== undefined) return value;
    const hint = "start the provisioner with --extra-create-metadata";
    throw wrong("prefix", prefix, `${template} is not known here: ${hint}`);
  });
  const parts = expanded.replace(/\/$/, "").split("/");
  if (expanded === "") return "";
  if (!parts.every((part) => PREFIX_PART.test(part))) {
    const rule = "names of letters, digits, dots, underscores and hyphens with a / between them";
    throw wrong("prefix", expanded, rule);
  }
  return `${parts.join("/")}/`;
}

function checkTemplates(prefix: string): void {
  for (const [template] of prefix.matchAll(/\$\{[^}]*\}?/g)) {
    if (TEMPLATES[template] !== undefined) continue;
    const known = Object.keys(TEMPLATES).join(", ");
    throw wrong("prefix", prefix, `${template} is not known; use ${known}`);
  }
}

function claimFactsOf(given: Readonly<Record<string, string>>): ClaimFacts {
  const facts: { -readonly [K in keyof ClaimFacts]: string } = {};
  for (const [fact, key] of Object.entries(CLAIM_KEYS) as [keyof ClaimFacts, string][]) {
    const value = given[key];
    if (value !== undefined && value !== "") facts[fact] = value;
  }
  return facts;
}

function oneOf<T extends string>(
  key: string,
  value: string | undefined,
  allowed: readonly T[],
): T | undefined {
  const found = allowed.find((one) => one === value);
  if (value === undefined || found !== undefined) return found;
  throw wrong(key, value, `use ${allowed.slice(0, -1).join(", ")} or ${allowed.at(-1)}`);
}
