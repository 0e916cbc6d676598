import { Failure } from "../base/failure.ts";
import { VolumeCapability_AccessMode_Mode as Mode } from "../csi/gen/csi_pb.ts";
import type { NodePublishVolumeRequest } from "../csi/gen/csi_pb.ts";
import { parseVolumeContext } from "../volume/volume-context.ts";
import type { VolumeContext } from "../volume/volume-context.ts";

/** NodePublishVolume, checked. */
export interface PublishRequest {
  readonly volumeId: string;
  readonly target: Target;
  readonly workloadUid: string;
  readonly mountOptions: readonly string[];
  /** For this pod, whoever else has the volume. */
  readonly readOnly: boolean;
  /** For all of them, by the volume's access mode. */
  readonly isReadOnlyVolume: boolean;
  /** ReadWriteOncePod: at no other target at the same time. */
  readonly isSingle?: boolean;
  readonly context: VolumeContext;
  readonly secrets: Readonly<Record<string, string>>;
}

/** Where the kubelet wants the volume. The path tells more than the request's other fields. */
export interface Target {
  readonly path: string;
  readonly podUid: string;
  readonly pvName: string;
}

const POD_UID = "csi.storage.k8s.io/pod.uid";
const READ_ONLY_MODES: ReadonlySet<Mode> = new Set([
  Mode.MULTI_NODE_READER_ONLY,
  Mode.SINGLE_NODE_READER_ONLY,
]);
/** One node at a time is Kubernetes' to keep; S3 takes writers from anywhere. */
const MODES: ReadonlySet<Mode> = new Set([
  ...READ_ONLY_MODES,
  Mode.MULTI_NODE_MULTI_WRITER,
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
  Mode.SINGLE_NODE_SINGLE_WRITER,
]);

export function parsePublishRequest(
  request: NodePublishVolumeRequest,
  kubeletPath: string,
): PublishRequest {
  const { volumeId, volumeCapability: capability } = request;
  if (volumeId === "") throw new Failure("invalid", "Volume ID not provided");
  const target = parseTarget(request.targetPath, kubeletPath);
  if (capability === undefined) throw new Failure("invalid", "Volume capability not provided");
  if (capability.accessType.case === "block") {
    throw new Failure("invalid", "Volume capability not supported: volumeMode Block");
  }
  const mode = capability.accessMode?.mode ?? Mode.UNKNOWN;
  if (!MODES.has(mode)) {
    throw new Failure(
      "invalid",
      `Volume capability not supported: access mode ${nameOf(mode)}; ` +
        "use ReadWriteMany, ReadOnlyMany, ReadWriteOnce or ReadWriteOncePod",
    );
  }
  const workloadUid = request.volumeContext[POD_UID] ?? target.podUid;
  if (workloadUid !== target.podUid) {
    throw new Failure("invalid", `target_path is of pod ${target.podUid}, not of ${workloadUid}`);
  }
  const isReadOnlyVolume = READ_ONLY_MODES.has(mode);
  const { accessType } = capability;
  const bringsSecret = Object.keys(request.secrets).length > 0;
  return {
    volumeId,
    target,
    workloadUid,
    mountOptions: accessType.case === "mount" ? accessType.value.mountFlags : [],
    readOnly: request.readonly || isReadOnlyVolume,
    isReadOnlyVolume,
    isSingle: mode === Mode.SINGLE_NODE_SINGLE_WRITER,
    context: parseVolumeContext(request.volumeContext, bringsSecret, volumeId),
    secrets: request.secrets,
  };
}

/** `<kubelet>/pods/<uid>/volumes/kubernetes.io~csi/<pv>/mount`: nothing else is ever mounted at. */
export function parseTarget(path: string, kubeletPath: string): Target {
  if (path === "") throw new Failure("invalid", "Target path not provided");
  const prefix = `${kubeletPath}/pods/`;
  const [podUid = "", volumes, kind, pvName = "", mount, ...rest] = path.startsWith(prefix)
    ? path.slice(prefix.length).split("/")
    : [];
  const names = [podUid, pvName].every((name) => name !== "" && name !== "." && name !== "..");
  const shape = volumes === "volumes" && kind === "kubernetes.io~csi" && mount === "mount";
  const whole = rest.length === 0 && !path.includes("\0"); // a system call would end at the NUL
  if (names && shape && whole) return { path, podUid, pvName };
  throw new Failure(
    "invalid",
    `Target path ${JSON.stringify(path)} is not a pod's volume below ${prefix}`,
  );
}

function nameOf(mode: Mode): string {
  return Object.entries(Mode).find(([, value]) => value === mode)?.[0] ?? String(mode);
}
