import { joinedOptionsOf } from "../volume/attachment.ts";
import type { SharingKey } from "../volume/attachment.ts";
import { parseVolumeContext } from "../volume/volume-context.ts";
import { parsePodSettings } from "../volume/pod-settings.ts";
import type { Volume, Workload } from "./facts.ts";

/**
 * What a workload would share. A Secret is named by the PV, the same for all its workloads: with
 * today's two sources of credentials, the workload's own identity never takes part.
 */
export function sharingKeyOf(workload: Workload, volume: Volume): SharingKey {
  const { attributes, bringsSecret, volumeId } = volume;
  const { authenticationSource } = parseVolumeContext(attributes, bringsSecret, volumeId);
  parsePodSettings(volume.attributes, volume.mountOptions); // refused now, not when a pod is made
  return {
    nodeName: workload.nodeName,
    persistentVolumeName: volume.name,
    volumeID: volume.volumeId,
    ...joinedOptionsOf(volume.mountOptions),
    workloadFSGroup: workload.fsGroup,
    authenticationSource,
    workloadNamespace: "",
    workloadServiceAccountName: "",
  };
}
