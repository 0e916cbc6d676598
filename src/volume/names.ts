import { createHash } from "node:crypto";

/** Names that users see. They are the API of the driver: changing one breaks somebody. */
export const DRIVER_NAME = "s3.csi.scality.com";
export const MOUNTPOINT_NAMESPACE_DEFAULT = "mount-s3";

export const LABEL = {
  mountpointVersion: `${DRIVER_NAME}/mountpoint-version`,
  podUid: `${DRIVER_NAME}/pod-uid`,
  workloadNamespace: `${DRIVER_NAME}/workload-namespace`,
  volumeName: `${DRIVER_NAME}/volume-name`,
  driverVersion: `${DRIVER_NAME}/mounted-by-csi-driver-version`,
  /** On a headroom pod: whose Mountpoint Pod it holds the place of, and for which volume. */
  headroomForPod: `${DRIVER_NAME}/headroom-for-pod`,
  headroomForVolume: `${DRIVER_NAME}/headroom-for-volume`,
  /** On a workload that came with the gate: what its headroom pods are drawn to. */
  headroomForWorkload: `${DRIVER_NAME}/headroom-for-workload`,
} as const;

/** A workload with this scheduling gate asks for headroom. */
export const HEADROOM_GATE = `${DRIVER_NAME}/reserve-headroom-for-mppod`;

export const ANNOTATION = {
  /** Controller to node: unmount, then let the pod end. Never taken back. */
  needsUnmount: `${DRIVER_NAME}/needs-unmount`,
  /** When the controller asked for that, as an ISO time. */
  needsUnmountSince: `${DRIVER_NAME}/needs-unmount-since`,
  /** An administrator drains a Mountpoint Pod: who is on it stays, nobody joins. */
  noNewWorkload: `${DRIVER_NAME}/no-new-workload`,
  /** The attachment a Mountpoint Pod was made for: finds the owner of a pod nobody lists. */
  attachment: `${DRIVER_NAME}/attachment`,
  /** 0 for the first Mountpoint Pod of a workload and volume, n for its n-th successor. */
  generation: `${DRIVER_NAME}/generation`,
  /**
   * The mount that a Mountpoint Pod serves: its own name for the first, and for a successor what
   * the one before it had. Node and controller mean the same mount by it, whoever serves it now.
   */
  mountId: `${DRIVER_NAME}/mount-id`,
  /** Of the settings that a Mountpoint Pod was made with: tells whether they have changed since. */
  settingsHash: `${DRIVER_NAME}/settings-hash`,
  /** The whole names: a label ends at 63 characters, these do not. */
  volumeName: `${DRIVER_NAME}/volume-name`,
  volumeId: `${DRIVER_NAME}/volume-id`,
  /** On a headroom pod: namespace and name of its workload. */
  headroomForWorkload: `${DRIVER_NAME}/headroom-for-workload`,
} as const;

/** Runs the mounter; whatever else a Mountpoint Pod has was injected by others. */
export const MOUNTER_CONTAINER = "mountpoint";

/** On a new node: keeps workloads away until the driver can serve them. */
export const STARTUP_TAINT = `${DRIVER_NAME}/agent-not-ready`;

const MOUNTPOINT_POD = /^mp-[0-9a-f]{56}$/;
/** Kubernetes names the claim of an ephemeral volume POD-VOLUME. */
const MOUNTPOINT_POD_CLAIM = /^mp-[0-9a-f]{56}-/;
const LABEL_VALUE = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

/**
 * Deterministic, so a lost answer or a second replica meets its own pod instead of making another.
 * A successor has another name, since its predecessor may still be terminating under the first.
 */
export function mountpointPodNameOf(workloadUid: string, pvName: string, generation = 0): string {
  const successor = generation === 0 ? "" : `/${generation}`;
  return `mp-${sha224(`${workloadUid}${pvName}${successor}`)}`;
}

/** Whether a pod in the namespace of the Mountpoint Pods is one, of this driver or another. */
export function isMountpointPodName(name: string): boolean {
  return MOUNTPOINT_POD.test(name);
}

/** Whether a claim in the namespace of the Mountpoint Pods is for a volume of one of them. */
export function isMountpointPodClaim(claimName: string): boolean {
  return MOUNTPOINT_POD_CLAIM.test(claimName);
}

/** A name as a label's value: itself where it is legal, else a hash (PV names reach 253). */
export function labelValueOf(name: string): string {
  return name === "" || LABEL_VALUE.test(name) ? name : sha224(name);
}

export function sha224(text: string): string {
  return createHash("sha224").update(text).digest("hex");
}
