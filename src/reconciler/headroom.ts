import type { Pod } from "../kube/resource.ts";
import { ANNOTATION, HEADROOM_GATE, LABEL, labelValueOf, sha224 } from "../volume/names.ts";
import { parsePodSettings } from "../volume/pod-settings.ts";
import type { PodPolicy } from "../volume/pod-settings.ts";
import type { Volume, Workload } from "./facts.ts";
import { ownedBy } from "./pod-owner.ts";
import type { OwnerReference } from "./pod-owner.ts";

export interface HeadroomSettings {
  readonly namespace: string;
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly imagePullSecrets: readonly string[];
  readonly priorityClassName: string;
  readonly userId: number | undefined;
  readonly policy: PodPolicy;
}

export interface HeadroomPod {
  readonly name: string;
  readonly uid: string;
  readonly workloadUid: string;
  readonly workloadPlace: { readonly namespace: string; readonly name: string };
  /** Of the volume's name, as labels have it. */
  readonly volumeLabel: string;
}

/** What is known of a workload's claim. */
export interface BoundClaim {
  /** Empty while the claim is not bound, or not in the cache yet. */
  readonly volumeName: string;
  /** Undefined: another driver's, or not seen so far. */
  readonly volume: Volume | undefined;
  /** The volume's Mountpoint Pod runs for this workload. */
  readonly served: boolean;
}

export interface HeadroomSeen {
  /** Undefined when it is gone. */
  readonly workload: Workload | undefined;
  readonly claims: readonly BoundClaim[];
  readonly pods: readonly HeadroomPod[];
  readonly nowMs: number;
}

export type HeadroomAction =
  | { readonly do: "create-headroom"; readonly volume: Volume }
  | { readonly do: "delete-headroom"; readonly pod: HeadroomPod }
  | { readonly do: "lift-gate" }
  | { readonly do: "look-again"; readonly afterMs: number };

/**
 * The PV controller binds a claim that it saw before the PV with its next resync, up to 15 s later.
 * The wait must end: a claim with WaitForFirstConsumer is never bound while its pod is gated.
 */
const UNBOUND_GRACE_MS = 20_000;
/** A claim may be known before its volume is; if it stays unknown, it is another driver's. */
const UNKNOWN_GRACE_MS = 2_000;

/**
 * A gated workload gets headroom for each of its volumes, and only then may be scheduled: whoever
 * makes room for it, scheduler or autoscaler, sees what its Mountpoint Pods will need.
 */
export function decideHeadroom({ workload, claims, pods, nowMs }: HeadroomSeen): HeadroomAction[] {
  if (workload === undefined || workload.ended || workload.terminating) {
    return pods.map((pod) => ({ do: "delete-headroom", pod }));
  }
  if (!workload.gated) return pods.filter((pod) => isServed(pod, claims)).map(remove);
  const ageMs = nowMs - workload.createdMs;
  const graceMs = Math.max(0, ...claims.map(graceOf));
  if (graceMs > Math.max(0, ageMs)) return [{ do: "look-again", afterMs: graceMs - ageMs }];
  const missing = claims.filter(({ volume }) => {
    return volume !== undefined && !pods.some((pod) => isFor(pod, volume.name));
  });
  const creations = missing.flatMap(({ volume }): HeadroomAction[] =>
    volume === undefined ? [] : [{ do: "create-headroom", volume }],
  );
  return [...creations, { do: "lift-gate" }];
}

function graceOf({ volumeName, volume }: BoundClaim): number {
  if (volumeName === "") return UNBOUND_GRACE_MS;
  return volume === undefined ? UNKNOWN_GRACE_MS : 0;
}

function remove(pod: HeadroomPod): HeadroomAction {
  return { do: "delete-headroom", pod };
}

/** Also when the volume is none of the workload's, as far as all of them are known. */
function isServed(pod: HeadroomPod, claims: readonly BoundClaim[]): boolean {
  const claim = claims.find(({ volumeName }) => isFor(pod, volumeName));
  return claim?.served ?? claims.every(({ volumeName }) => volumeName !== "");
}

function isFor(pod: HeadroomPod, volumeName: string): boolean {
  return pod.volumeLabel === labelValueOf(volumeName);
}

export function headroomPodOf({ metadata }: Pod): HeadroomPod | undefined {
  const labels = metadata?.labels ?? {};
  const workloadUid = labels[LABEL.headroomForPod];
  if (workloadUid === undefined) return undefined;
  const [namespace = "", workload = ""] =
    metadata?.annotations?.[ANNOTATION.headroomForWorkload]?.split("/") ?? [];
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    workloadUid,
    workloadPlace: { namespace, name: workload },
    volumeLabel: labels[LABEL.headroomForVolume] ?? "",
  };
}

/** Holds the place of a Mountpoint Pod beside its workload, and gives it up to anybody. */
export function headroomPodFor(
  workload: Workload,
  volume: Volume,
  settings: HeadroomSettings,
  owner?: OwnerReference,
): Pod {
  const { userId, policy } = settings;
  const { resources } = parsePodSettings(volume.attributes, volume.mountOptions, policy);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `hr-${sha224(`${workload.uid}${volume.name}`)}`,
      namespace: settings.namespace,
      labels: {
        "app.kubernetes.io/name": "s3csi",
        "app.kubernetes.io/component": "headroom",
        [LABEL.headroomForPod]: workload.uid,
        [LABEL.headroomForVolume]: labelValueOf(volume.name),
      },
      annotations: {
        [ANNOTATION.headroomForWorkload]: `${workload.namespace}/${workload.name}`,
      },
      ...ownedBy(owner),
    },
    spec: {
      ...besideWorkload(workload),
      priorityClassName: settings.priorityClassName,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      imagePullSecrets: settings.imagePullSecrets.map((name) => ({ name })),
      securityContext: {
        runAsNonRoot: true,
        ...(userId === undefined ? {} : { runAsUser: userId, runAsGroup: userId }),
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "pause",
          image: settings.image,
          imagePullPolicy: settings.imagePullPolicy,
          resources,
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
        },
      ],
    },
  };
}

function besideWorkload({ uid, namespace }: Workload) {
  const workload = {
    labelSelector: { matchLabels: { [LABEL.headroomForWorkload]: uid } },
    namespaces: [namespace],
    topologyKey: "kubernetes.io/hostname",
  };
  return {
    affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [workload] } },
    tolerations: [{ operator: "Exists" }],
  };
}

/** The workload without its gate, and with the label that its headroom looks for. */
export function ungatedOf({ metadata, spec }: Pod): object | undefined {
  const gates = spec?.schedulingGates ?? [];
  if (!gates.some((gate) => gate.name === HEADROOM_GATE)) return undefined;
  const uid = metadata?.uid ?? "";
  return {
    metadata: {
      uid,
      resourceVersion: metadata?.resourceVersion, // other gates are others': none may come back
      labels: { [LABEL.headroomForWorkload]: uid },
    },
    spec: { schedulingGates: gates.filter((gate) => gate.name !== HEADROOM_GATE) },
  };
}
