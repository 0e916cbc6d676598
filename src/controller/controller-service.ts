import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Failure } from "../base/failure.ts";
import { ControllerServiceCapability_RPC_Type as Rpc } from "../csi/gen/csi_pb.ts";
import type { Controller, CreateVolumeRequest } from "../csi/gen/csi_pb.ts";
import type { BucketVolumes } from "./bucket-volumes.ts";

/** The second one is what ReadWriteOncePod asks for. */
const CAPABILITIES = [Rpc.CREATE_DELETE_VOLUME, Rpc.SINGLE_NODE_MULTI_WRITER] as const;
const ANSWER_WITHIN_MS = 60_000;

/** CSI Controller: the volumes for whoever asks on the socket, be it the official provisioner. */
export function controllerService(volumes: BucketVolumes): ServiceImpl<typeof Controller> {
  return {
    async createVolume(request, context) {
      checkWhoseKeys(request);
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

/**
 * A provisioner on the socket hands over what was in a Secret: an empty one looks like none. Where
 * the class says that there is one, its keys are meant, and never the driver's.
 */
function checkWhoseKeys({ parameters, secrets }: CreateVolumeRequest): void {
  const isNone = Object.keys(secrets).length === 0;
  if (parameters["authenticationSource"] !== "secret" || !isNone) return;
  throw new Failure(
    "invalid",
    'StorageClass parameter authenticationSource is "secret", yet no keys came with the request: ' +
      "name a Secret with access_key_id and secret_access_key as " +
      "csi.storage.k8s.io/provisioner-secret-name and -namespace",
  );
}

function signalOf({ signal }: HandlerContext): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
}
