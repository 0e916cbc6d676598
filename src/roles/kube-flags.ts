import * as z from "zod";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { DNS_LABEL, DNS_NAME } from "../provisioner/secret-ref.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { isRegion } from "../volume/volume-context.ts";

/**
 * Values that the API server, the kubelet or the S3 client would refuse, but only when a pod is
 * made or a claim is served. The chart's schema has the same rules.
 */
const KEY_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const KEY_RULE =
  "a key is at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, " +
  "after an optional DNS name and '/', such as example.com/team";
const VALUE_RULE =
  "a value is empty, or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at " +
  "both ends";
const IMAGE = /^[A-Za-z0-9][A-Za-z0-9._/:@-]*$/;
const IMAGE_RULE = "must be an image such as registry.example.com/s3csi:1.0, without spaces";
const NAME_RULE =
  "must be at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both " +
  "ends of each part between dots";

/** The name of an object in Kubernetes. */
export function objectName() {
  return z.string().regex(DNS_NAME, NAME_RULE);
}

/** The same, where empty is none. */
export function objectNameIfAny() {
  return z.string().refine((name) => name === "" || DNS_NAME.test(name), NAME_RULE);
}

/** Comma-separated. */
export function objectNames() {
  return z
    .string()
    .default("")
    .transform((names) => names.split(",").filter((name) => name !== ""))
    .refine((names) => names.every((name) => DNS_NAME.test(name)), `each name ${NAME_RULE}`);
}

export function namespaceName() {
  return z
    .string()
    .regex(
      DNS_LABEL,
      "must be at most 63 lower-case letters, digits and '-', with a letter or digit at both ends",
    );
}

/** An image as a pod names it. */
export function imageName() {
  return z.string().regex(IMAGE, IMAGE_RULE);
}

/** The same, where empty is none. */
export function imageNameIfAny() {
  return z.string().refine((name) => name === "" || IMAGE.test(name), IMAGE_RULE);
}

/** A flag whose parser throws a Failure or a SyntaxError; its message becomes the flag's error. */
export function parsedBy<T>(parse: (text: string) => T) {
  return (text: string, context: z.RefinementCtx): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof Failure) && !(error instanceof SyntaxError)) throw error;
      context.addIssue({ code: "custom", message: error.message });
      return z.NEVER;
    }
  };
}

/** Labels as KEY=VALUE,… */
export function parseLabels(text: string): Record<string, string> {
  const pairs = text.split(",").filter((pair) => pair !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const [key = "", ...rest] = pair.split("=");
      const value = rest.join("=");
      if (!isLabelKey(key)) throw invalid(`label key ${quoted(key)}: ${KEY_RULE}`);
      if (value !== "" && !KEY_NAME.test(value)) {
        throw invalid(`label ${key} is ${quoted(value)}: ${VALUE_RULE}`);
      }
      return [key, value];
    }),
  );
}

/** Annotations as an object in JSON. The driver's own are not the administrator's to set. */
export function parseAnnotations(text: string): Record<string, string> {
  const annotations = z.record(z.string(), z.string()).safeParse(JSON.parse(text));
  if (!annotations.success) throw invalid("must be an object of texts");
  for (const key of Object.keys(annotations.data)) {
    // Unlike those of labels, the prefixes of annotations may have capital letters.
    if (!isLabelKey(key.toLowerCase())) throw invalid(`annotation key ${quoted(key)}: ${KEY_RULE}`);
    if (key.startsWith(`${DRIVER_NAME}/`)) {
      throw invalid(
        `annotation key ${quoted(key)}: the prefix ${DRIVER_NAME}/ is the driver's own`,
      );
    }
  }
  return annotations.data;
}

function isLabelKey(key: string): boolean {
  const slash = key.indexOf("/");
  return KEY_NAME.test(key.slice(slash + 1)) && (slash < 0 || DNS_NAME.test(key.slice(0, slash)));
}

/** The S3 server and region of the environment. The URL's password must not be in the error. */
export function checkServer(env: Environment): void {
  const endpoint = env["AWS_ENDPOINT_URL"] ?? "";
  if (endpoint !== "") checkEndpoint(endpoint);
  const region = env["AWS_REGION"] ?? "";
  if (region === "" || isRegion(region)) return;
  throw invalid(
    `AWS_REGION is ${quoted(region)}: must be at most 63 letters, digits and '-', such as ` +
      "us-east-1; in the chart it is s3.region",
  );
}

function checkEndpoint(text: string): void {
  const url = URL.parse(text);
  const shown = quoted(text.replace(/^([a-z]+:\/\/)?.*@/is, "$1***@"));
  const rule = "must be http:// or https:// with a host and, if need be, a port from 1 to 65535";
  const hint = "in the chart it is s3.endpointUrl";
  if (url === null || !/^https?:\/\//.test(text) || url.port === "0") {
    throw invalid(`AWS_ENDPOINT_URL is ${shown}: ${rule}; ${hint}`);
  }
  if (url.username === "" && url.password === "") return;
  throw invalid(
    `AWS_ENDPOINT_URL is ${shown}: must not hold credentials, which belong into the driver's ` +
      `Secret; ${hint}`,
  );
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

function invalid(message: string): Failure {
  return new Failure("invalid", message);
}
