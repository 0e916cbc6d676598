import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from "../kube/resource.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import { NOTE_ANNOTATION, parseNote } from "./note.ts";
import type { Note } from "./note.ts";
import type { SecretRef } from "./secret-ref.ts";

/** Names that are shared with the official provisioner: one can switch between it and ours. */
export const PROVISIONED_BY = "pv.kubernetes.io/provisioned-by";
export const DELETION_SECRET_NAME = "volume.kubernetes.io/provisioner-deletion-secret-name";
export const DELETION_SECRET_NAMESPACE =
  "volume.kubernetes.io/provisioner-deletion-secret-namespace";
export const VOLUME_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer";
/** On a claim while a bucket may exist that no PV tells of: a deleted claim leaves no orphan. */
export const CLAIM_FINALIZER = `${DRIVER_NAME}/provisioning`;

const PROVISIONERS = [
  "volume.kubernetes.io/storage-provisioner",
  "volume.beta.kubernetes.io/storage-provisioner",
];
/** The label helm.sh/chart of the chart's own objects has this value, with the version. */
const OWN_CHART = /^s3csi-\d/;
const SELECTED_NODE = "volume.kubernetes.io/selected-node";
const CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class";

/** The fields of a claim that matter before it is bound. */
export interface Claim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Of the picture: a write that depends on what it shows is refused when it is old. */
  readonly resourceVersion: string;
  readonly className: string;
  /** Empty until it is bound, or was asked for by name. */
  readonly volumeName: string;
  readonly isBound: boolean;
  readonly isTerminating: boolean;
  /** Has our finalizer. */
  readonly isHeld: boolean;
  /** Of a held claim: where its volume was begun. */
  readonly note: Note | undefined;
  readonly selectedNode: string;
  readonly accessModes: readonly string[];
  readonly volumeMode: string;
  /** Quantities; empty: none. */
  readonly request: string;
  readonly limit: string;
  /** Without the note. */
  readonly annotations: Readonly<Record<string, string>>;
  /** What we have no answer to: a selector, a data source. */
  readonly unsupported: string | undefined;
}

export interface Class {
  readonly name: string;
  readonly provisioner: string;
  readonly createdMs: number;
  /** The driver's own chart has made it. */
  readonly isOfChart?: boolean;
  readonly parameters: Readonly<Record<string, string>>;
  readonly reclaimPolicy: string;
  readonly mountOptions: readonly string[];
  readonly waitsForConsumer: boolean;
  /** Each a set of node labels; a volume may be used where one of them holds. */
  readonly allowedTopologies: readonly Readonly<Record<string, string>>[];
}

/** A PV that was made for a claim. */
export interface Volume {
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly reclaimPolicy: string;
  readonly isTerminating: boolean;
  readonly hasFinalizer: boolean;
  readonly handle: string;
  readonly claim: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly className: string;
  readonly deletionKeys: DeletionKeys;
}

/** Whose keys delete what is behind a PV, as its annotations say. */
export type DeletionKeys =
  | { readonly of: "secret"; readonly secret: SecretRef }
  | { readonly of: "driver" }
  | { readonly of: "untold" } // a PV from before there were such annotations
  | { readonly of: "half"; readonly set: string; readonly missing: string };

/** The PV of a claim: known before it is made. */
export function volumeNameOf({ uid }: Pick<Claim, "uid">): string {
  return `pvc-${uid}`;
}

/** A claim of another provisioner, or one that has all it needs: undefined. */
export function claimOf({ metadata, spec, status }: PersistentVolumeClaim): Claim | undefined {
  const { [NOTE_ANNOTATION]: note, ...annotations } = metadata?.annotations ?? {};
  const uid = metadata?.uid ?? "";
  const isHeld = metadata?.finalizers?.includes(CLAIM_FINALIZER) === true;
  const provisioner = PROVISIONERS.map((key) => annotations[key]).find((name) => name);
  const isBound = status?.phase === "Bound";
  if (!isHeld && (isBound || provisioner !== DRIVER_NAME)) return undefined;
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid,
    resourceVersion: metadata?.resourceVersion ?? "",
    className: annotations[CLASS_ANNOTATION] ?? spec?.storageClassName ?? "",
    volumeName: spec?.volumeName ?? "",
    isBound,
    isTerminating: metadata?.deletionTimestamp !== undefined,
    isHeld,
    note: isHeld ? parseNote(note, volumeNameOf({ uid })) : undefined,
    selectedNode: annotations[SELECTED_NODE] ?? "",
    accessModes: spec?.accessModes ?? [],
    volumeMode: spec?.volumeMode ?? "Filesystem",
    request: spec?.resources?.requests?.["storage"] ?? "",
    limit: spec?.resources?.limits?.["storage"] ?? "",
    annotations,
    unsupported: unsupportedOf(spec),
  };
}

function unsupportedOf(spec: PersistentVolumeClaim["spec"]): string | undefined {
  if (spec?.selector !== undefined) return "spec.selector: a selector finds volumes that exist";
  if (spec?.volumeAttributesClassName !== undefined) {
    return "spec.volumeAttributesClassName: an S3 volume has no attributes to change";
  }
  const source = spec?.dataSourceRef ?? spec?.dataSource;
  if (source === undefined) return undefined;
  return `spec.dataSource: ${source.kind} ${source.name}; S3 volumes begin empty`;
}

export function classOf(raw: StorageClass): Class | undefined {
  if (raw.provisioner !== DRIVER_NAME) return undefined;
  return {
    name: raw.metadata?.name ?? "",
    provisioner: raw.provisioner,
    createdMs: Date.parse(String(raw.metadata?.creationTimestamp)),
    isOfChart: OWN_CHART.test(raw.metadata?.labels?.["helm.sh/chart"] ?? ""),
    parameters: raw.parameters ?? {},
    reclaimPolicy: raw.reclaimPolicy ?? "Delete",
    mountOptions: raw.mountOptions ?? [],
    waitsForConsumer: raw.volumeBindingMode === "WaitForFirstConsumer",
    allowedTopologies: (raw.allowedTopologies ?? []).flatMap(segmentsOf),
  };
}

type Term = NonNullable<StorageClass["allowedTopologies"]>[number];

/** A term allows several values for each label: every combination is a place of its own. */
function segmentsOf({ matchLabelExpressions = [] }: Term): Record<string, string>[] {
  return matchLabelExpressions.reduce<Record<string, string>[]>(
    (sets, { key, values }) =>
      sets.flatMap((set) => values.map((value) => ({ ...set, [key]: value }))),
    [{}],
  );
}

/** A static volume, or one of another driver: undefined. Those are never touched. */
export function volumeOf({ metadata, spec, status }: PersistentVolume): Volume | undefined {
  const annotations = metadata?.annotations ?? {};
  if (spec?.csi?.driver !== DRIVER_NAME || annotations[PROVISIONED_BY] !== DRIVER_NAME) {
    return undefined;
  }
  const { namespace = "", name = "", uid = "" } = spec.claimRef ?? {};
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    phase: status?.phase ?? "",
    reclaimPolicy: spec.persistentVolumeReclaimPolicy ?? "Retain",
    isTerminating: metadata?.deletionTimestamp !== undefined,
    hasFinalizer: metadata?.finalizers?.includes(VOLUME_FINALIZER) === true,
    handle: spec.csi.volumeHandle,
    claim: { namespace, name, uid },
    className: spec.storageClassName ?? "",
    deletionKeys: deletionKeysOf(annotations),
  };
}

function deletionKeysOf(annotations: Readonly<Record<string, string>>): DeletionKeys {
  const keys = [DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE];
  if (!keys.some((key) => key in annotations)) return { of: "untold" };
  const { [DELETION_SECRET_NAME]: name = "", [DELETION_SECRET_NAMESPACE]: namespace = "" } =
    annotations;
  if (name === "" && namespace === "") return { of: "driver" };
  if (name !== "" && namespace !== "") return { of: "secret", secret: { name, namespace } };
  const [set = "", missing = ""] = name === "" ? keys.toReversed() : keys;
  return { of: "half", set, missing };
}
