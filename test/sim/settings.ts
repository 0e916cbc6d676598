import type { MountpointPod, Volume } from "../../src/reconciler/facts.ts";

/** The driver's settings for Mountpoint Pods, in one word each: the image, what they request. */
export const GOOD = "good small";
export const SETTINGS: readonly string[] = [
  GOOD,
  "another small",
  "bad small", // names an image that does not exist
  "bad-too small",
  "mute small", // names a ConfigMap that does not exist
  "good large",
  "bad large",
];
/** The attribute of a volume that replaces what the driver's settings request. */
export const REQUEST = "request";

/** The settings that a pod made now would have; those of its volume go before the driver's. */
export function hashOf(settings: string, attributes: Volume["attributes"]): string {
  const [image, request] = settings.split(" ");
  return `${image} ${attributes[REQUEST] ?? request}`;
}

/** No kubelet finds the image. */
export function hasBadImage({ settingsHash }: MountpointPod): boolean {
  return settingsHash.startsWith("bad");
}

/** A volume cannot be set up, and the kubelet only reports ContainerCreating. */
export function lacksVolume({ settingsHash }: MountpointPod): boolean {
  return settingsHash.startsWith("mute");
}

export function isLarge({ settingsHash }: MountpointPod): boolean {
  return settingsHash.endsWith(" large");
}
