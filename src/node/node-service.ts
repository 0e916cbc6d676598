import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Failure } from "../base/failure.ts";
import { NodeServiceCapability_RPC_Type } from "../csi/gen/csi_pb.ts";
import type { Node } from "../csi/gen/csi_pb.ts";
import { parsePublishRequest, parseTarget } from "./publish-request.ts";
import type { Volumes } from "./volumes.ts";

/** The kubelet gives up after two minutes with words of its own: answer before, with ours. */
const ANSWER_BEFORE_MS = 5_000;
const PUBLISH_WITHIN_MS = 115_000;

/** The second one is what ReadWriteOncePod asks for. */
const CAPABILITIES = [
  NodeServiceCapability_RPC_Type.VOLUME_MOUNT_GROUP,
  NodeServiceCapability_RPC_Type.SINGLE_NODE_MULTI_WRITER,
] as const;

export interface NodeServiceOptions {
  readonly nodeId: string;
  readonly kubeletPath: string;
  readonly volumes: Volumes;
  /** The node's labels that say where it is; empty: volumes can be used everywhere. */
  readonly topology?: Readonly<Record<string, string>>;
}

/** CSI Node: checks the request at the door, hands it on. */
export function nodeService(options: NodeServiceOptions): ServiceImpl<typeof Node> {
  const { nodeId, kubeletPath, volumes, topology = {} } = options;
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
