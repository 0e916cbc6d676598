import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Failure } from "../base/failure.ts";
import { NodeServiceCapability_RPC_Type } from "../csi/gen/csi_pb.ts";
import type { Node } from "../csi/gen/csi_pb.ts";
import { parsePublishRequest, parseTarget } from "./publish-request.ts";
import type { Volumes } from "./volumes.ts";

/** The kubelet gives up after two minutes with words of its own: answer before, with ours. */
const ANSWER_BEFORE_MS = 5_000;
const PUBLISH_WITHIN_MS = 115_000;

export interface NodeServiceOptions {
  readonly nodeId: string;
  readonly kubeletPath: string;
  readonly volumes: Volumes;
}

/** CSI Node: checks the request at the door, hands it on. */
export function nodeService(options: NodeServiceOptions): ServiceImpl<typeof Node> {
  const { nodeId, kubeletPath, volumes } = options;
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
      capabilities: [
        {
          type: {
            case: "rpc",
            value: { type: NodeServiceCapability_RPC_Type.VOLUME_MOUNT_GROUP },
          },
        },
      ],
    }),
    nodeGetInfo: () => ({ nodeId }),
  };
}

function publishWithinMs(context: HandlerContext): number {
  const leftMs = (context.timeoutMs() ?? Infinity) - ANSWER_BEFORE_MS;
  return Math.max(1, Math.min(leftMs, PUBLISH_WITHIN_MS));
}
