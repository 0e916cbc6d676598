import { AttributeFailure } from "../volume/attribute-failure.ts";
import { ENV_PREFIX } from "../volume/mountpoint-env.ts";
import { POD_ATTRIBUTES, parsePodSettings } from "../volume/pod-settings.ts";
import { ParameterFailure } from "./parameter-failure.ts";

type Parameters = Readonly<Record<string, string>>;

export function isPodAttribute(key: string): boolean {
  return POD_ATTRIBUTES.includes(key) || key.startsWith(ENV_PREFIX);
}

/**
 * The parameters of a StorageClass that its volumes have as volumeAttributes, checked now: the
 * controller would refuse the PV when a workload waits for it, and a PV can't be corrected.
 */
export function podAttributesOf(given: Parameters): Parameters {
  const attributes = Object.fromEntries(
    Object.entries(given).filter(([key]) => isPodAttribute(key)),
  );
  try {
    parsePodSettings(attributes, []);
  } catch (error) {
    if (!(error instanceof AttributeFailure)) throw error;
    const words = error.message.replaceAll("volumeAttributes.", "");
    throw new ParameterFailure(error.attribute, `StorageClass parameter ${words}`, error);
  }
  return attributes;
}
