import type { Pod } from "../kube/resource.ts";
import type { SharingKey } from "../volume/attachment.ts";
import { ANNOTATION, LABEL, labelValueOf } from "../volume/names.ts";
import type { NewPod } from "./decide.ts";

export interface MountpointPodSettings {
  readonly namespace: string;
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly imagePullSecrets: readonly string[];
  readonly priorityClassName: string;
  readonly driverVersion: string;
}

const COMM = "/comm";
const USER = 1_000;
/** The engine's last uploads take their time; the mounter ends as soon as they are done. */
const GRACE_SECONDS = 600;

/**
 * A pod with no right at all: no hostPath, no capability, no token. The scheduler binds it (its
 * node is a required affinity, not spec.nodeName), so that it takes part in the node's accounts.
 */
export function mountpointPodFor(
  pod: NewPod,
  attachment: string,
  key: SharingKey,
  settings: MountpointPodSettings,
): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: pod.name,
      namespace: settings.namespace,
      labels: {
        "app.kubernetes.io/name": "s3csi",
        "app.kubernetes.io/component": "mountpoint",
        [LABEL.mountpointVersion]: labelValueOf(settings.driverVersion),
        [LABEL.driverVersion]: labelValueOf(settings.driverVersion),
        [LABEL.podUid]: pod.workloadUid,
        [LABEL.volumeName]: labelValueOf(key.persistentVolumeName),
      },
      annotations: {
        [ANNOTATION.attachment]: attachment,
        [ANNOTATION.generation]: String(pod.generation),
        [ANNOTATION.mountId]: pod.mountId,
        [ANNOTATION.volumeName]: key.persistentVolumeName,
        [ANNOTATION.volumeId]: key.volumeID,
      },
    },
    spec: {
      ...placement(key.nodeName),
      priorityClassName: settings.priorityClassName,
      restartPolicy: "OnFailure",
      terminationGracePeriodSeconds: GRACE_SECONDS,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      imagePullSecrets: settings.imagePullSecrets.map((name) => ({ name })),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: USER,
        runAsGroup: USER,
        fsGroup: USER,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [container(settings)],
      volumes: [{ name: "comm", emptyDir: { medium: "Memory", sizeLimit: "10Mi" } }],
    },
  };
}

function placement(nodeName: string): Pick<NonNullable<Pod["spec"]>, "affinity" | "tolerations"> {
  const matchFields = [{ key: "metadata.name", operator: "In", values: [nodeName] }];
  return {
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] },
      },
    },
    tolerations: [{ operator: "Exists" }],
  };
}

function container(settings: MountpointPodSettings): NonNullable<Pod["spec"]>["containers"][0] {
  return {
    name: "mountpoint",
    image: settings.image,
    imagePullPolicy: settings.imagePullPolicy,
    args: ["mounter", "--comm", COMM],
    resources: { requests: { cpu: "10m", memory: "64Mi" } },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: [{ name: "comm", mountPath: COMM }],
  };
}
