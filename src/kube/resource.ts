import type {
  EventsV1Event,
  V1ConfigMap,
  V1CSIDriver,
  V1CSINode,
  V1Lease,
  V1Namespace,
  V1Node,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Secret,
  V1StorageClass,
} from "@kubernetes/client-node";

/** The library's models describe decoded objects; on the wire a Date is still its text. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? { [Field in keyof T]: Wire<T[Field]> }
      : T;

export interface Meta {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
}

export interface KubeObject {
  readonly metadata?: Meta;
}

/** Where a kind lives. `of` is never set: it carries the type from here to the answer. */
export interface Resource<T extends KubeObject> {
  readonly prefix: string;
  readonly plural: string;
  readonly of?: T;
}

export type Pod = Wire<V1Pod>;
export type PersistentVolume = Wire<V1PersistentVolume>;
export type PersistentVolumeClaim = Wire<V1PersistentVolumeClaim>;
export type StorageClass = Wire<V1StorageClass>;
export type KubeSecret = Wire<V1Secret>;
export type KubeNode = Wire<V1Node>;
export type KubeEvent = Wire<EventsV1Event>;
export type Lease = Wire<V1Lease>;
export type ConfigMap = Wire<V1ConfigMap>;
export type Namespace = Wire<V1Namespace>;
export type CsiNode = Wire<V1CSINode>;
export type CsiDriver = Wire<V1CSIDriver>;

export const PODS: Resource<Pod> = { prefix: "/api/v1", plural: "pods" };
export const PVS: Resource<PersistentVolume> = { prefix: "/api/v1", plural: "persistentvolumes" };
export const PVCS: Resource<PersistentVolumeClaim> = {
  prefix: "/api/v1",
  plural: "persistentvolumeclaims",
};
export const STORAGE_CLASSES: Resource<StorageClass> = {
  prefix: "/apis/storage.k8s.io/v1",
  plural: "storageclasses",
};
export const SECRETS: Resource<KubeSecret> = { prefix: "/api/v1", plural: "secrets" };
export const NODES: Resource<KubeNode> = { prefix: "/api/v1", plural: "nodes" };
export const CONFIG_MAPS: Resource<ConfigMap> = { prefix: "/api/v1", plural: "configmaps" };
export const NAMESPACES: Resource<Namespace> = { prefix: "/api/v1", plural: "namespaces" };
export const EVENTS: Resource<KubeEvent> = { prefix: "/apis/events.k8s.io/v1", plural: "events" };
export const LEASES: Resource<Lease> = {
  prefix: "/apis/coordination.k8s.io/v1",
  plural: "leases",
};
export const CSI_NODES: Resource<CsiNode> = {
  prefix: "/apis/storage.k8s.io/v1",
  plural: "csinodes",
};
export const CSI_DRIVERS: Resource<CsiDriver> = {
  prefix: "/apis/storage.k8s.io/v1",
  plural: "csidrivers",
};
