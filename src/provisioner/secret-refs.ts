import { Failure } from "../base/failure.ts";
import type { Claim } from "./facts.ts";
import { volumeNameOf } from "./facts.ts";
import { DNS_LABEL, DNS_NAME } from "./secret-ref.ts";
import type { SecretRef } from "./secret-ref.ts";

/** A class' Secrets: who makes and deletes the bucket, and who mounts it. */
export interface SecretRefs {
  readonly provisioner: SecretRef | undefined;
  readonly nodePublish: SecretRef | undefined;
}

const PREFIX = "csi.storage.k8s.io/";
const USES = ["provisioner", "node-publish"] as const;
const SECRET_PARAMETERS = USES.flatMap((use) => [nameKey(use), namespaceKey(use)]);
export const FS_TYPE = `${PREFIX}fstype`;
/** Known to the official provisioner; a driver that neither attaches nor expands has no use. */
const UNUSED = ["controller-publish", "node-stage", "controller-expand", "node-expand"];
const UNUSED_PARAMETERS = new Set(UNUSED.flatMap((use) => [nameKey(use), namespaceKey(use)]));
const ANNOTATION = /^\$\{pvc\.annotations\['([^']+)'\]\}$/;

/** The parameters that are the driver's: without those that only the provisioner reads. */
export function driverParameters(
  parameters: Readonly<Record<string, string>>,
): Record<string, string> {
  const own = new Set([...SECRET_PARAMETERS, FS_TYPE]);
  const rest = Object.entries(parameters).filter(([key]) => !own.has(key));
  const unknown = rest.find(([key]) => key.startsWith(PREFIX));
  if (unknown !== undefined) {
    const [key, value] = unknown;
    throw invalid(key, value, `not known; use ${SECRET_PARAMETERS.join(", ")}`);
  }
  return Object.fromEntries(rest);
}

/** A class for the reference driver: the provisioner's parameters, the driver's, and the idle. */
export function sortParameters(parameters: Readonly<Record<string, string>>) {
  const all = Object.entries(parameters);
  const ofKubernetes = all.filter(([key]) => key.startsWith(PREFIX));
  const idle = ofKubernetes.filter(([key]) => UNUSED_PARAMETERS.has(key));
  return {
    secrets: Object.fromEntries(ofKubernetes.filter(([key]) => !UNUSED_PARAMETERS.has(key))),
    rest: Object.fromEntries(all.filter(([key]) => !key.startsWith(PREFIX))),
    ignored: idle.map(([key, value]) => invalid(key, value, "of no use here").message),
  };
}

export function secretRefsOf(
  parameters: Readonly<Record<string, string>>,
  claim: Claim,
): SecretRefs {
  return {
    provisioner: refOf("provisioner", parameters, claim),
    nodePublish: refOf("node-publish", parameters, claim),
  };
}

export function hasProvisionerSecret(parameters: Readonly<Record<string, string>>): boolean {
  return [nameKey("provisioner"), namespaceKey("provisioner")].some((key) => key in parameters);
}

function refOf(
  use: (typeof USES)[number],
  parameters: Readonly<Record<string, string>>,
  claim: Claim,
): SecretRef | undefined {
  const [name, namespace] = [parameters[nameKey(use)], parameters[namespaceKey(use)]];
  if (name === undefined && namespace === undefined) return undefined;
  if (name === undefined || namespace === undefined) {
    const [set, missing] =
      name === undefined ? [namespaceKey(use), nameKey(use)] : [nameKey(use), namespaceKey(use)];
    throw invalid(set, parameters[set] ?? "", `${missing} is missing: both or none`);
  }
  const inNamespace = { "pv.name": volumeNameOf(claim), "pvc.namespace": claim.namespace };
  const inName = { ...inNamespace, "pvc.name": claim.name };
  const annotations = use === "node-publish" ? claim.annotations : undefined;
  return {
    name: expand(nameKey(use), name, inName, annotations, DNS_NAME),
    namespace: expand(namespaceKey(use), namespace, inNamespace, undefined, DNS_LABEL),
  };
}

function expand(
  key: string,
  template: string,
  values: Readonly<Record<string, string>>,
  annotations: Readonly<Record<string, string>> | undefined,
  legal: RegExp,
): string {
  const expanded = template.replace(/\$\{[^}]*\}/g, (part) => {
    const value = ownValue(values, part.slice(2, -1)) ?? annotationFor(part, annotations);
    if (value !== undefined) return value;
    const known = Object.keys(values).map((name) => `\${${name}}`);
    if (annotations !== undefined) known.push("${pvc.annotations['KEY']} that the claim has");
    throw invalid(key, template, `${part} has no value; use ${known.join(", ")}`);
  });
  if (legal.test(expanded)) return expanded;
  throw invalid(key, template, `${JSON.stringify(expanded)} is not a legal name`);
}

function annotationFor(
  part: string,
  annotations: Readonly<Record<string, string>> | undefined,
): string | undefined {
  const [, name = ""] = ANNOTATION.exec(part) ?? [];
  return name === "" || annotations === undefined ? undefined : ownValue(annotations, name);
}

/** Templates are users' text: `constructor` must not be found on the prototype. */
function ownValue(values: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function nameKey(use: string): string {
  return `${PREFIX}${use}-secret-name`;
}

function namespaceKey(use: string): string {
  return `${PREFIX}${use}-secret-namespace`;
}

function invalid(key: string, value: string, rule: string): Failure {
  return new Failure(
    "invalid",
    `StorageClass parameter ${key} is ${JSON.stringify(value)}: ${rule}`,
  );
}
