import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { ControllerServiceCapability_RPC_Type as Rpc } from "../csi/gen/csi_pb.ts";
import type { Controller } from "../csi/gen/csi_pb.ts";
import type { BucketVolumes } from "./bucket-volumes.ts";

/** The second one is what ReadWriteOncePod asks for. */
const CAPABILITIES = [Rpc.CREATE_DELETE_VOLUME, Rpc.SINGLE_NODE_MULTI_WRITER] as const;
const ANSWER_WITHIN_MS = 60_000;

/** CSI Controller: the volumes for whoever asks on the socket, be it the official provisioner. */
export function controllerService(volumes: BucketVolumes): ServiceImpl<typeof Controller> {
  return {
    async createVolume(request, context) {
      const { topology, ...volume } = await volumes.create(request, signalOf(context));
      const accessibleTopology = topology.map((segments) => ({ segments }));
      return { volume: { ...volume, accessibleTopology } };
    },
    async deleteVolume(request, context) {
      await volumes.delete(request, signalOf(context));
      return {};
    },
    async validateVolumeCapabilities(request, context) {
      const message = await volumes.validate(request, signalOf(context));
      if (message !== undefined) return { message };
      const { volumeContext, volumeCapabilities, parameters, mutableParameters } = request;
      return {
        confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters },
      };
    },
    controllerGetCapabilities: () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { case: "rpc", value: { type } } })),
    }),
  };
}

function signalOf({ signal }: HandlerContext): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
}
