import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Failure } from "../base/failure.ts";
import {
  NodeServiceCapability_RPC_Type as Capability,
  VolumeUsage_Unit,
} from "../csi/gen/csi_pb.ts";
import type { Node } from "../csi/gen/csi_pb.ts";
import { parsePublishRequest, parseTarget } from "./publish-request.ts";
import type { SourceMounts } from "./source-mounts.ts";
import { conditionOf } from "./volume-stats.ts";
import type { Volumes } from "./volumes.ts";

/** The kubelet gives up after two minutes with words of its own: answer before, with ours. */
const ANSWER_BEFORE_MS = 5_000;
const PUBLISH_WITHIN_MS = 115_000;

export interface NodeServiceOptions {
  readonly nodeId: string;
  readonly kubeletPath: string;
  readonly volumes: Volumes;
  readonly sources: Pick<SourceMounts, "stateOf">;
  /** The node's labels that say where it is; empty: volumes can be used everywhere. */
  readonly topology?: Readonly<Record<string, string>>;
}

const CAPABILITIES = [
  Capability.VOLUME_MOUNT_GROUP,
  Capability.SINGLE_NODE_MULTI_WRITER, // what ReadWriteOncePod asks for
  Capability.GET_VOLUME_STATS,
  Capability.VOLUME_CONDITION,
];
/** A bucket has no end; statfs can not say so, and nobody should run out of it. */
const BUCKET_BYTES = 2n ** 60n;

/** CSI Node: checks the request at the door, hands it on. */
export function nodeService(options: NodeServiceOptions): ServiceImpl<typeof Node> {
  const { nodeId, kubeletPath, volumes, sources, topology = {} } = options;
  return {
    async nodePublishVolume(request, context) {
      const wanted = parsePublishRequest(request, kubeletPath);
      await volumes.publish(wanted, AbortSignal.timeout(publishWithinMs(context)));
      return {};
    },
    async nodeUnpublishVolume(request) {
      if (request.volumeId === "") throw new Failure("invalid", "Volume ID not provided");
      await volumes.unpublish(parseTarget(request.targetPath, kubeletPath));
      return {};
    },
    nodeGetVolumeStats({ volumeId, volumePath }) {
      if (volumeId === "") throw new Failure("invalid", "Volume ID not provided");
      if (volumePath === "") throw new Failure("invalid", "Volume path not provided");
      const volumeCondition = conditionOf(volumePath, (device) => sources.stateOf(device));
      const [total, used] = [BUCKET_BYTES, 0n];
      const bytes = { unit: VolumeUsage_Unit.BYTES, total, available: total, used };
      return { usage: [bytes], volumeCondition };
    },
    nodeGetCapabilities: () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { case: "rpc", value: { type } } })),
    }),
    nodeGetInfo: () => ({
      nodeId,
      ...(Object.keys(topology).length === 0 ? {} : { accessibleTopology: { segments: topology } }),
    }),
  };
}

function publishWithinMs(context: HandlerContext): number {
  const leftMs = (context.timeoutMs() ?? Infinity) - ANSWER_BEFORE_MS;
  return Math.max(1, Math.min(leftMs, PUBLISH_WITHIN_MS));
}
