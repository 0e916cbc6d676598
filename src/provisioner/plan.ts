import { create } from "@bufbuild/protobuf";
import { quantityToScalar } from "@kubernetes/client-node/dist/util.js";
import { Failure } from "../base/failure.ts";
import {
  CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../csi/gen/csi_pb.ts";
import type { CreateVolumeRequest } from "../csi/gen/csi_pb.ts";
import type { PersistentVolume } from "../kube/resource.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import {
  DELETION_SECRET_NAME,
  DELETION_SECRET_NAMESPACE,
  PROVISIONED_BY,
  VOLUME_FINALIZER,
  volumeNameOf,
} from "./facts.ts";
import type { Claim, Class } from "./facts.ts";
import { FS_TYPE, driverParameters, secretRefsOf } from "./secret-refs.ts";
import type { SecretRefs } from "./secret-refs.ts";

/** What the driver has made, as much of it as a PV tells. */
export interface MadeVolume {
  readonly volumeId: string;
  readonly volumeContext: Readonly<Record<string, string>>;
  readonly topology: readonly Readonly<Record<string, string>>[];
}

/** A claim's way to its PV, worked out before anything is done. */
export interface Plan {
  readonly claim: Claim;
  readonly storageClass: Class;
  readonly secrets: SecretRefs;
  /** Still without the provisioner's Secret. */
  readonly request: CreateVolumeRequest;
}

const MODES: Readonly<Record<string, Mode>> = {
  ReadWriteOnce: Mode.SINGLE_NODE_MULTI_WRITER,
  ReadOnlyMany: Mode.MULTI_NODE_READER_ONLY,
  ReadWriteMany: Mode.MULTI_NODE_MULTI_WRITER,
  ReadWriteOncePod: Mode.SINGLE_NODE_SINGLE_WRITER,
};
const AUTHENTICATION_SOURCE = "authenticationSource";

export function planFor(claim: Claim, storageClass: Class): Plan {
  if (claim.unsupported !== undefined) {
    throw new Failure("invalid", `not supported: ${claim.unsupported}`);
  }
  const secrets = secretRefsOf(storageClass.parameters, claim);
  const parameters = {
    ...driverParameters(storageClass.parameters),
    "csi.storage.k8s.io/pvc/name": claim.name,
    "csi.storage.k8s.io/pvc/namespace": claim.namespace,
    "csi.storage.k8s.io/pv/name": volumeNameOf(claim),
  };
  const source = authenticationSourceOf(storageClass, secrets);
  const request = create(CreateVolumeRequestSchema, {
    name: volumeNameOf(claim),
    capacityRange: { requiredBytes: bytesOf(claim.request), limitBytes: bytesOf(claim.limit) },
    volumeCapabilities: claim.accessModes.map((mode) => capabilityOf(mode, claim, storageClass)),
    parameters: { ...parameters, [AUTHENTICATION_SOURCE]: source },
    ...(storageClass.allowedTopologies.length === 0
      ? {}
      : {
          accessibilityRequirements: {
            requisite: storageClass.allowedTopologies.map((segments) => ({ segments })),
          },
        }),
  });
  return { claim, storageClass, secrets, request };
}

/** Whoever mounts is who the class names for it: its Secret, or the driver. */
function authenticationSourceOf({ parameters }: Class, { nodePublish }: SecretRefs): string {
  const source = nodePublish === undefined ? "driver" : "secret";
  const asked = parameters[AUTHENTICATION_SOURCE] ?? source;
  if (asked === source || !["driver", "secret"].includes(asked)) return asked; // it is told there
  throw new Failure(
    "invalid",
    `StorageClass parameter ${AUTHENTICATION_SOURCE} is "${asked}", yet ` +
      (nodePublish === undefined
        ? "csi.storage.k8s.io/node-publish-secret-name names no Secret to mount with"
        : "csi.storage.k8s.io/node-publish-secret-name names a Secret to mount with"),
  );
}

function capabilityOf(mode: string, { volumeMode }: Claim, { parameters, mountOptions }: Class) {
  const mountFlags = [...mountOptions];
  const mount = { fsType: parameters[FS_TYPE] ?? "", mountFlags };
  return {
    accessMode: { mode: MODES[mode] ?? Mode.UNKNOWN },
    accessType:
      volumeMode === "Block"
        ? ({ case: "block", value: {} } as const)
        : ({ case: "mount", value: mount } as const),
  };
}

function bytesOf(quantity: string): bigint {
  const value = quantityToScalar(quantity);
  return typeof value === "bigint" ? value : BigInt(Math.ceil(value));
}

/** The PV that binds the claim to what was made. Its name and UIDs make a second one impossible. */
export function volumeFor({ claim, storageClass, secrets }: Plan, made: MadeVolume) {
  const { provisioner, nodePublish } = secrets;
  const volume: PersistentVolume = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: {
      name: volumeNameOf(claim),
      annotations: {
        [PROVISIONED_BY]: DRIVER_NAME,
        [DELETION_SECRET_NAME]: provisioner?.name ?? "",
        [DELETION_SECRET_NAMESPACE]: provisioner?.namespace ?? "",
      },
      finalizers: storageClass.reclaimPolicy === "Delete" ? [VOLUME_FINALIZER] : [],
    },
    spec: {
      capacity: { storage: claim.request },
      accessModes: [...claim.accessModes],
      volumeMode: claim.volumeMode,
      persistentVolumeReclaimPolicy: storageClass.reclaimPolicy,
      storageClassName: claim.className,
      mountOptions: [...storageClass.mountOptions],
      claimRef: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        namespace: claim.namespace,
        name: claim.name,
        uid: claim.uid,
      },
      csi: {
        driver: DRIVER_NAME,
        volumeHandle: made.volumeId,
        volumeAttributes: { ...made.volumeContext },
        ...(nodePublish === undefined ? {} : { nodePublishSecretRef: { ...nodePublish } }),
      },
      ...(made.topology.length === 0 ? {} : { nodeAffinity: affinityOf(made.topology) }),
    },
  };
  return volume;
}

function affinityOf(topology: MadeVolume["topology"]) {
  const nodeSelectorTerms = topology.map((segments) => ({
    matchExpressions: Object.entries(segments).map(([key, value]) => ({
      key,
      operator: "In",
      values: [value],
    })),
  }));
  return { required: { nodeSelectorTerms } };
}
