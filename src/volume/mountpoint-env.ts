import { AttributeFailure } from "./attribute-failure.ts";
import type { MountPolicy } from "./mount-options.ts";

type Variables = Readonly<Record<string, string>>;

export const ENV_PREFIX = "mountpointEnv.";
const PROXIES: readonly string[] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/**
 * The variables that a volume asks for by its `mountpointEnv.NAME` attributes. Names other than the
 * proxies are refused under every policy: loader and Node variables would run foreign code beside
 * the credentials, the others would replace the S3 server or the authorities that vouch for it.
 */
export function parseMountpointEnv(attributes: Variables): Variables {
  const env: Record<string, string> = {};
  for (const [field, value] of Object.entries(attributes)) {
    if (!field.startsWith(ENV_PREFIX)) continue;
    const name = field.slice(ENV_PREFIX.length);
    if (!PROXIES.includes(name)) {
      const rule = `environment variable not allowed: use ${hintFor(name)}`;
      throw new AttributeFailure(field, `${field}: ${rule}`);
    }
    env[name] = value;
  }
  return env;
}

/** A proxy sees what a server of the volume's choice would see: one policy rules both. */
export function allowedEnv(env: Variables, { volumeEndpoints }: MountPolicy): Variables {
  return volumeEndpoints ? env : {};
}

/** The variables that the policy leaves out, for the log and the event. */
export function envWarnings(env: Variables, { volumeEndpoints }: MountPolicy): string[] {
  if (volumeEndpoints) return [];
  return Object.keys(env).map(
    (name) =>
      `volumeAttributes.${ENV_PREFIX}${name} is left out: the way to the S3 server is the ` +
      "driver's setting mountpointPod.proxy, unless the chart has node.allowVolumeEndpoints",
  );
}

function hintFor(name: string): string {
  if (name.startsWith("AWS_ENDPOINT_URL")) return "the mount option endpoint-url";
  if (/CERT|CA_BUNDLE/.test(name)) return "the chart's tls.caCertConfigMap";
  return `one of ${PROXIES.join(", ")}`;
}
